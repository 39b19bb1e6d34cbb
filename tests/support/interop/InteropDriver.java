/** The Java client on a leash: one JSON command per line on stdin, one JSON answer per line on stdout. */

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.DescribeClusterResult;
import org.apache.kafka.clients.admin.DescribeConfigsOptions;
import org.apache.kafka.clients.admin.FeatureUpdate;
import org.apache.kafka.clients.admin.ListOffsetsResult;
import org.apache.kafka.clients.admin.LogDirDescription;
import org.apache.kafka.clients.admin.NewPartitionReassignment;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.QuorumInfo;
import org.apache.kafka.clients.admin.RaftVoterEndpoint;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.admin.UpdateFeaturesOptions;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public class InteropDriver {
    static final ObjectMapper JSON = new ObjectMapper();
    static final long READ_TIMEOUT_MS = 20_000;
    static String servers;

    public static void main(String[] arguments) throws Exception {
        servers = arguments[0];
        PrintStream answers = new PrintStream(System.out, true, "UTF-8");
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            ObjectNode answer = JSON.createObjectNode();
            try {
                JsonNode command = JSON.readTree(line);
                answer.set("result", run(command.get("do").asText(), command));
            } catch (Throwable error) {
                Throwable cause = error.getCause() == null ? error : error.getCause();
                answer.put("error", cause.getClass().getSimpleName());
                answer.put("message", String.valueOf(cause.getMessage()));
            }
            answers.println(JSON.writeValueAsString(answer));
        }
    }

    static JsonNode run(String what, JsonNode command) throws Exception {
        switch (what) {
            case "write": return write(command);
            case "read": return read(command);
            case "spread": return spread(command);
            case "times": return times(command);
            case "admin": return admin(command);
            case "refused": return refused(command);
            case "cluster": return cluster(command);
            case "replicas": return replicas(command);
            case "move": return move(command);
            case "steady": return steady(command);
            case "acknowledged": return JSON.getNodeFactory().numberNode(steady.acknowledged.size());
            case "steady-end": return steadyEnd();
            default: throw new IllegalArgumentException(what);
        }
    }

    // -- records

    static Map<String, Object> settings(JsonNode command) {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", servers);
        if (command.has("settings")) {
            command.get("settings").fields().forEachRemaining(e -> settings.put(e.getKey(), e.getValue().asText()));
        }
        return settings;
    }

    static byte[] bytes(JsonNode node) throws Exception {
        return node.isNull() ? null : node.binaryValue();
    }

    static List<ProducerRecord<byte[], byte[]>> records(JsonNode command) throws Exception {
        List<ProducerRecord<byte[], byte[]>> records = new ArrayList<>();
        for (JsonNode row : command.get("rows")) {
            List<Header> headers = new ArrayList<>();
            for (JsonNode header : row.get("headers")) {
                headers.add(new RecordHeader(header.get(0).asText(), bytes(header.get(1))));
            }
            records.add(new ProducerRecord<>(
                command.get("topic").asText(), command.get("partition").asInt(),
                row.get("timestamp").asLong(), bytes(row.get("key")), bytes(row.get("value")), headers));
        }
        return records;
    }

    static JsonNode write(JsonNode command) throws Exception {
        ArrayNode offsets = JSON.createArrayNode();
        try (KafkaProducer<byte[], byte[]> producer =
                new KafkaProducer<>(settings(command), new ByteArraySerializer(), new ByteArraySerializer())) {
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (ProducerRecord<byte[], byte[]> record : records(command)) {
                sent.add(producer.send(record));
            }
            for (Future<RecordMetadata> each : sent) {
                offsets.add(each.get().offset());
            }
        }
        return offsets;
    }

    static KafkaConsumer<byte[], byte[]> consumer(JsonNode command) {
        Map<String, Object> settings = settings(command);
        settings.put("auto.offset.reset", "none");
        settings.putIfAbsent("fetch.max.wait.ms", "50");
        settings.put("enable.auto.commit", "false");
        return new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    static JsonNode read(JsonNode command) throws Exception {
        TopicPartition here =
            new TopicPartition(command.get("topic").asText(), command.get("partition").asInt());
        ArrayNode rows = JSON.createArrayNode();
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(command)) {
            consumer.assign(Set.of(here));
            consumer.seekToBeginning(Set.of(here));
            long end = consumer.endOffsets(Set.of(here)).get(here);
            long deadline = System.currentTimeMillis() + READ_TIMEOUT_MS;
            while (consumer.position(here) < end) {
                if (System.currentTimeMillis() > deadline) {
                    throw new IllegalStateException(rows.size() + " records, then nothing");
                }
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(1000))) {
                    rows.add(row(record));
                }
            }
        }
        return rows;
    }

    static ObjectNode row(ConsumerRecord<byte[], byte[]> record) {
        ObjectNode row = JSON.createObjectNode();
        row.put("offset", record.offset());
        row.put("timestamp", record.timestamp());
        row.put("key", record.key());
        row.put("value", record.value());
        ArrayNode headers = row.putArray("headers");
        for (Header header : record.headers()) {
            headers.addArray().add(header.key()).add(header.value());
        }
        return row;
    }

    /** Produce to every partition in rounds and consume all of them at once: fetch sessions at work. */
    static JsonNode spread(JsonNode command) throws Exception {
        String topic = command.get("topic").asText();
        int partitions = command.get("partitions").asInt();
        int rounds = command.get("rounds").asInt();
        List<TopicPartition> all = new ArrayList<>();
        for (int index = 0; index < partitions; index++) {
            all.add(new TopicPartition(topic, index));
        }
        Map<Integer, List<String>> seen = new TreeMap<>();
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(command);
             KafkaProducer<byte[], byte[]> producer =
                new KafkaProducer<>(settings(command), new ByteArraySerializer(), new ByteArraySerializer())) {
            consumer.assign(all);
            consumer.seekToBeginning(all);
            int wanted = 0;
            int count = 0;
            long deadline = System.currentTimeMillis() + READ_TIMEOUT_MS;
            for (int round = 0; round < rounds; round++) {
                for (int index = round % 3; index < partitions; index += 3) {
                    producer.send(new ProducerRecord<>(topic, index, null, (round + "").getBytes()));
                    wanted++;
                }
                producer.flush();
                while (count < wanted && System.currentTimeMillis() < deadline) {
                    for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(1000))) {
                        seen.computeIfAbsent(record.partition(), k -> new ArrayList<>())
                            .add(new String(record.value()));
                        count++;
                    }
                }
            }
        }
        return JSON.valueToTree(seen);
    }

    static JsonNode times(JsonNode command) throws Exception {
        TopicPartition here = new TopicPartition(command.get("topic").asText(), 0);
        ArrayNode found = JSON.createArrayNode();
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(command)) {
            for (JsonNode timestamp : command.get("timestamps")) {
                OffsetAndTimestamp at = consumer.offsetsForTimes(Map.of(here, timestamp.asLong())).get(here);
                found.add(at == null ? -1 : at.offset());
            }
        }
        return found;
    }

    /** The exception that a single record ends with. */
    static JsonNode refused(JsonNode command) throws Exception {
        try {
            write(command);
        } catch (java.util.concurrent.ExecutionException error) {
            return JSON.valueToTree(error.getCause().getClass().getSimpleName());
        }
        return JSON.nullNode();
    }

    // -- administration

    static JsonNode admin(JsonNode command) throws Exception {
        String topic = command.get("topic").asText();
        TopicPartition first = new TopicPartition(topic, 0);
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        ObjectNode told = JSON.createObjectNode();
        try (Admin admin = Admin.create(settings(command))) {
            NewTopic wanted = new NewTopic(topic, Optional.of(2), Optional.empty())
                .configs(Map.of("retention.ms", "3600000"));
            told.put("id", admin.createTopics(List.of(wanted)).topicId(topic).get().toString());
            told.put("listed", admin.listTopics().names().get().contains(topic));
            admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(5))).all().get();
            TopicDescription description = admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic);
            told.put("partitions", description.partitions().size());
            told.put("described id", description.topicId().toString());
            told.put("leader", description.partitions().get(4).leader().id());

            admin.incrementalAlterConfigs(Map.of(resource, (Collection<AlterConfigOp>) List.of(
                new AlterConfigOp(new ConfigEntry("cleanup.policy", "compact"), AlterConfigOp.OpType.APPEND),
                new AlterConfigOp(new ConfigEntry("retention.ms", null), AlterConfigOp.OpType.DELETE),
                new AlterConfigOp(new ConfigEntry("segment.bytes", "2000000"), AlterConfigOp.OpType.SET)
            ))).all().get();
            Config config = admin.describeConfigs(List.of(resource),
                new DescribeConfigsOptions().includeSynonyms(true).includeDocumentation(true)).all().get().get(resource);
            ObjectNode configs = told.putObject("configs");
            for (String name : List.of("cleanup.policy", "retention.ms", "segment.bytes")) {
                ConfigEntry entry = config.get(name);
                configs.putArray(name).add(entry.value()).add(entry.source().name()).add(entry.type().name())
                    .add(entry.synonyms().size()).add(entry.documentation() != null);
            }

            try (KafkaProducer<byte[], byte[]> producer =
                    new KafkaProducer<>(settings(command), new ByteArraySerializer(), new ByteArraySerializer())) {
                for (int n = 0; n < 4; n++) {
                    producer.send(new ProducerRecord<>(topic, 0, 1000L * (n == 2 ? 9 : n) + System.currentTimeMillis(),
                        "k".getBytes(), ("" + n).getBytes()));
                    producer.flush();
                }
            }
            told.put("low watermark", admin.deleteRecords(Map.of(first, RecordsToDelete.beforeOffset(1)))
                .lowWatermarks().get(first).get().lowWatermark());
            ObjectNode offsets = told.putObject("offsets");
            Map<String, OffsetSpec> specs = new HashMap<>();
            specs.put("earliest", OffsetSpec.earliest());
            specs.put("latest", OffsetSpec.latest());
            specs.put("max timestamp", OffsetSpec.maxTimestamp());
            specs.put("earliest local", OffsetSpec.earliestLocal());
            specs.put("latest tiered", OffsetSpec.latestTiered());
            specs.put("time zero", OffsetSpec.forTimestamp(0));
            for (Map.Entry<String, OffsetSpec> spec : specs.entrySet()) {
                ListOffsetsResult found = admin.listOffsets(Map.of(first, spec.getValue()));
                offsets.put(spec.getKey(), found.partitionResult(first).get().offset());
            }

            DescribeClusterResult cluster = admin.describeCluster();
            told.put("nodes", cluster.nodes().get().size());
            told.put("cluster", cluster.clusterId().get());
            int replicas = 0;
            for (LogDirDescription dir : admin.describeLogDirs(List.of(cluster.controller().get().id()))
                    .allDescriptions().get().values().iterator().next().values()) {
                for (TopicPartition each : dir.replicaInfos().keySet()) {
                    replicas += each.topic().equals(topic) ? 1 : 0;
                }
                told.put("room", dir.totalBytes().getAsLong() >= dir.usableBytes().getAsLong());
            }
            told.put("replicas", replicas);
            told.put("resources", admin.listConfigResources(Set.of(ConfigResource.Type.TOPIC), 
                new org.apache.kafka.clients.admin.ListConfigResourcesOptions()).all().get().contains(resource));
            told.put("features", admin.describeFeatures().featureMetadata().get().finalizedFeatures().size());
            admin.deleteTopics(List.of(topic)).all().get();
            told.put("deleted", !admin.listTopics().names().get().contains(topic));
            try {
                admin.deleteTopics(List.of(topic)).all().get();
            } catch (java.util.concurrent.ExecutionException error) {
                told.put("twice", error.getCause().getClass().getSimpleName());
            }
        }
        return told;
    }

    interface Work {
        void run() throws Exception;
    }

    /** "ok", or the exception that it ends with. */
    static String outcome(Work work) throws Exception {
        try {
            work.run();
            return "ok";
        } catch (java.util.concurrent.ExecutionException error) {
            return error.getCause().getClass().getSimpleName();
        }
    }

    static JsonNode cluster(JsonNode command) throws Exception {
        TopicPartition first = new TopicPartition(command.get("topic").asText(), 0);
        ObjectNode told = JSON.createObjectNode();
        try (Admin admin = Admin.create(settings(command))) {
            Optional<Throwable> election =
                admin.electLeaders(ElectionType.PREFERRED, Set.of(first)).partitions().get().get(first);
            told.put("elected", election.map(each -> each.getClass().getSimpleName()).orElse("ok"));
            told.put("reassigned", outcome(() -> reassign(admin, first, Optional.of(List.of(1)))));
            told.put("not reassigned", outcome(() -> reassign(admin, first, Optional.of(List.of(1, 77)))));
            told.put("not taken back", outcome(() -> reassign(admin, first, Optional.empty())));
            told.put("reassignments", admin.listPartitionReassignments().reassignments().get().size());
            told.put("features", outcome(() -> setLevel(admin, (short) 30)));
            told.put("no such level", outcome(() -> setLevel(admin, (short) 999)));
            told.put("unregistered", outcome(() -> admin.unregisterBroker(77).all().get()));
            QuorumInfo quorum = admin.describeMetadataQuorum().quorumInfo().get();
            told.put("leader", quorum.leaderId());
            ArrayNode voters = told.putArray("voters");
            quorum.voters().forEach(each -> voters.add(each.replicaId()));
            ArrayNode observers = told.putArray("observers");
            quorum.observers().forEach(each -> observers.add(each.replicaId()));
            told.put("added", outcome(() -> admin.addRaftVoter(2, Uuid.randomUuid(),
                Set.of(new RaftVoterEndpoint("CONTROLLER", "localhost", 1))).all().get()));
        }
        return told;
    }

    /** How a cluster of several is described: quorum, partitions, features. */
    static JsonNode replicas(JsonNode command) throws Exception {
        String topic = command.get("topic").asText();
        ObjectNode told = JSON.createObjectNode();
        try (Admin admin = Admin.create(settings(command))) {
            QuorumInfo quorum = admin.describeMetadataQuorum().quorumInfo().get();
            told.put("leader", quorum.leaderId());
            ObjectNode lags = told.putObject("lags");
            quorum.voters().forEach(each -> lags.put("" + each.replicaId(), quorum.highWatermark() - each.logEndOffset()));
            ArrayNode observers = told.putArray("observers");
            quorum.observers().forEach(each -> observers.add(each.replicaId()));
            told.put("brokers", admin.describeCluster().nodes().get().size());
            told.put("metadata", admin.describeFeatures().featureMetadata().get()
                .finalizedFeatures().get("metadata.version").maxVersionLevel());
            ArrayNode partitions = told.putArray("partitions");
            for (TopicPartitionInfo each :
                    admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions()) {
                ObjectNode row = partitions.addObject();
                row.put("leader", each.leader() == null ? -1 : each.leader().id());
                ArrayNode replicas = row.putArray("replicas");
                each.replicas().forEach(node -> replicas.add(node.id()));
                ArrayNode isr = row.putArray("isr");
                each.isr().forEach(node -> isr.add(node.id()));
                row.put("elr", each.elr() == null ? -1 : each.elr().size());
            }
        }
        return told;
    }

    /** Moves partition 0, waits until that is done, makes the first replica its leader. */
    static JsonNode move(JsonNode command) throws Exception {
        TopicPartition first = new TopicPartition(command.get("topic").asText(), 0);
        List<Integer> target = new ArrayList<>();
        command.get("target").forEach(each -> target.add(each.asInt()));
        ObjectNode told = JSON.createObjectNode();
        try (Admin admin = Admin.create(settings(command))) {
            reassign(admin, first, Optional.of(target));
            long deadline = System.currentTimeMillis() + READ_TIMEOUT_MS;
            while (!admin.listPartitionReassignments(Set.of(first)).reassignments().get().isEmpty()) {
                if (System.currentTimeMillis() > deadline) {
                    throw new IllegalStateException("the reassignment does not end");
                }
                Thread.sleep(20);
            }
            Optional<Throwable> election =
                admin.electLeaders(ElectionType.PREFERRED, Set.of(first)).partitions().get().get(first);
            told.put("elected", election.map(each -> each.getClass().getSimpleName()).orElse("ok"));
            told.put("again", admin.electLeaders(ElectionType.PREFERRED, Set.of(first)).partitions().get()
                .get(first).map(each -> each.getClass().getSimpleName()).orElse("ok"));
        }
        return told;
    }

    /** A producer with default settings that goes on until it is told to end. */
    static class Steady extends Thread {
        final Map<Integer, Long> acknowledged = new ConcurrentHashMap<>();
        final List<String> errors = Collections.synchronizedList(new ArrayList<>());
        final Map<String, Object> settings;
        final String topic;
        volatile boolean goesOn = true;

        Steady(JsonNode command) {
            settings = settings(command);
            topic = command.get("topic").asText();
        }

        @Override
        public void run() {
            try (KafkaProducer<byte[], byte[]> producer =
                    new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer())) {
                for (int number = 0; goesOn; number++) {
                    int sent = number;
                    producer.send(new ProducerRecord<>(topic, 0, null, ("" + sent).getBytes()), (where, error) -> {
                        if (error == null) {
                            acknowledged.put(sent, where.offset());
                        } else {
                            errors.add(error.toString());
                        }
                    });
                    Thread.sleep(1);
                }
            } catch (Exception error) {
                errors.add(error.toString());
            }
        }
    }

    static Steady steady;

    static JsonNode steady(JsonNode command) {
        steady = new Steady(command);
        steady.start();
        return JSON.nullNode();
    }

    static JsonNode steadyEnd() throws Exception {
        steady.goesOn = false;
        steady.join();
        ObjectNode told = JSON.createObjectNode();
        ArrayNode errors = told.putArray("errors");
        steady.errors.forEach(errors::add);
        ObjectNode offsets = told.putObject("offsets");
        steady.acknowledged.forEach((number, offset) -> offsets.put("" + number, offset));
        return told;
    }

    static void reassign(Admin admin, TopicPartition partition, Optional<List<Integer>> target) throws Exception {
        admin.alterPartitionReassignments(Map.of(partition, target.map(NewPartitionReassignment::new))).all().get();
    }

    static void setLevel(Admin admin, short level) throws Exception {
        FeatureUpdate update = new FeatureUpdate(level, FeatureUpdate.UpgradeType.UPGRADE);
        admin.updateFeatures(Map.of("metadata.version", update), new UpdateFeaturesOptions()).all().get();
    }
}
