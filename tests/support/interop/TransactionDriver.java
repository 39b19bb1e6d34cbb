/** Transactional producers in one JVM: one JSON command per line on stdin, one JSON answer per line on stdout. */

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AbortTransactionSpec;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

public class TransactionDriver {
    static final ObjectMapper JSON = new ObjectMapper();
    static final Map<String, KafkaProducer<String, String>> producers = new HashMap<>();

    static Map<String, Object> settings(JsonNode command) {
        Map<String, Object> settings = new HashMap<>();
        command.get("settings").fields().forEachRemaining(
            each -> settings.put(each.getKey(), each.getValue().asText()));
        return settings;
    }

    static Map<TopicPartition, OffsetAndMetadata> offsets(JsonNode command) {
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        for (JsonNode each : command.get("offsets")) {
            offsets.put(
                new TopicPartition(each.get(0).asText(), each.get(1).asInt()),
                new OffsetAndMetadata(each.get(2).asLong()));
        }
        return offsets;
    }

    static void send(KafkaProducer<String, String> producer, JsonNode command) throws Exception {
        List<java.util.concurrent.Future<?>> sent = new ArrayList<>();
        for (JsonNode row : command.get("rows")) {
            sent.add(producer.send(
                new ProducerRecord<>(command.get("topic").asText(), row.get(0).asInt(), null, row.get(1).asText())));
        }
        if (command.get("wait").asBoolean()) {
            producer.flush();
            for (var each : sent) {
                each.get();
            }
        }
    }

    static ArrayNode read(JsonNode command) {
        ArrayNode found = JSON.createArrayNode();
        try (var consumer =
            new KafkaConsumer<>(settings(command), new StringDeserializer(), new StringDeserializer())) {
            List<TopicPartition> partitions = new ArrayList<>();
            for (int index = 0; index < command.get("partitions").asInt(); index++) {
                partitions.add(new TopicPartition(command.get("topic").asText(), index));
            }
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            var ends = consumer.endOffsets(partitions);
            while (partitions.stream().anyMatch(each -> consumer.position(each) < ends.get(each))) {
                for (var record : consumer.poll(Duration.ofMillis(100))) {
                    found.add(JSON.createArrayNode().add(record.partition()).add(record.value()));
                }
            }
        }
        return found;
    }

    static ObjectNode admin(JsonNode command) throws Exception {
        ObjectNode found = JSON.createObjectNode();
        try (Admin admin = Admin.create(settings(command))) {
            String id = command.get("id").asText();
            var partition = new TopicPartition(command.get("topic").asText(), 0);
            for (var each : admin.listTransactions().all().get()) {
                found.withArray("/listed").add(each.transactionalId() + " " + each.state());
            }
            var described = admin.describeTransactions(List.of(id)).description(id).get();
            found.put("state", described.state().toString());
            found.put("partitions", described.topicPartitions().size());
            for (var each : admin.describeProducers(List.of(partition)).partitionResult(partition).get()
                .activeProducers()) {
                found.withArray("/producers").add(each.currentTransactionStartOffset().orElse(-1));
                if (command.get("abort").asBoolean()) {
                    admin.abortTransaction(new AbortTransactionSpec(
                        partition, each.producerId(), (short) each.producerEpoch(),
                        each.coordinatorEpoch().orElse(-1))).all().get();
                }
            }
            if (command.get("fence").asBoolean()) {
                admin.fenceProducers(List.of(id)).all().get();
            }
        }
        return found;
    }

    static JsonNode run(JsonNode command) throws Exception {
        String name = command.get("name").asText();
        KafkaProducer<String, String> producer = producers.get(name);
        switch (command.get("do").asText()) {
            case "open" -> {
                producer = new KafkaProducer<>(settings(command), new StringSerializer(), new StringSerializer());
                producers.put(name, producer);
                producer.initTransactions();
            }
            case "begin" -> producer.beginTransaction();
            case "send" -> send(producer, command);
            case "offsets" -> producer.sendOffsetsToTransaction(
                offsets(command), new ConsumerGroupMetadata(command.get("group").asText()));
            case "commit" -> producer.commitTransaction();
            case "abort" -> producer.abortTransaction();
            case "close" -> producers.remove(name).close(Duration.ofMillis(200));
            case "read" -> {
                return read(command);
            }
            case "admin" -> {
                return admin(command);
            }
            default -> throw new IllegalArgumentException(command.toString());
        }
        return JSON.createObjectNode();
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(System.out, true, "UTF-8");
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            ObjectNode answer = JSON.createObjectNode();
            try {
                answer.set("result", run(JSON.readTree(line)));
            } catch (Throwable problem) {
                Throwable cause = problem instanceof ExecutionException ? problem.getCause() : problem;
                answer.put("error", cause.getClass().getSimpleName());
                answer.put("message", String.valueOf(cause.getMessage()));
            }
            out.println(JSON.writeValueAsString(answer));
        }
    }
}
