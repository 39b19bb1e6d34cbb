/** Members of groups in one JVM: one JSON command per line on stdin, one JSON answer per line on stdout. */

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

public class GroupDriver {
    static final ObjectMapper JSON = new ObjectMapper();

    /** Consumes until it is told to stop; commits after every poll, and before partitions go. */
    static class Member extends Thread implements ConsumerRebalanceListener {
        final String topic;
        final KafkaConsumer<byte[], byte[]> consumer;
        volatile boolean running = true;
        ArrayNode events = JSON.createArrayNode();
        ArrayNode records = JSON.createArrayNode();
        String failure;

        Member(String topic, Map<String, Object> settings) {
            this.topic = topic;
            consumer = new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        }

        @Override
        public void run() {
            try {
                if (topic.startsWith("^")) {
                    consumer.subscribe(new SubscriptionPattern(topic), this);
                } else {
                    consumer.subscribe(List.of(topic), this);
                }
                while (running) {
                    var polled = consumer.poll(Duration.ofMillis(50));
                    synchronized (this) {
                        for (ConsumerRecord<byte[], byte[]> each : polled) {
                            records.add(JSON.createArrayNode().add(each.partition()).add(each.offset()));
                        }
                    }
                    if (!polled.isEmpty()) {
                        try {
                            consumer.commitSync();
                        } catch (org.apache.kafka.clients.consumer.CommitFailedException
                            | org.apache.kafka.common.errors.RebalanceInProgressException moved) {
                            // Whoever has the partitions now reads these records again.
                        }
                    }
                }
            } catch (Throwable problem) {
                synchronized (this) {
                    failure = problem.toString();
                }
            } finally {
                consumer.close();
            }
        }

        synchronized void note(String what, Collection<TopicPartition> partitions) {
            for (TopicPartition each : partitions) {
                events.add(JSON.createArrayNode().add(System.currentTimeMillis()).add(what).add(each.partition()));
            }
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            note("+", partitions);
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            note("-", partitions);
        }

        synchronized ObjectNode news() {
            ObjectNode news = JSON.createObjectNode();
            news.set("events", events);
            news.set("records", records);
            news.put("failure", failure);
            events = JSON.createArrayNode();
            records = JSON.createArrayNode();
            return news;
        }
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(System.out, true, "UTF-8");
        Map<String, Member> members = new HashMap<>();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode command = JSON.readTree(line);
            String name = command.get("name").asText();
            ObjectNode answer = JSON.createObjectNode();
            switch (command.get("do").asText()) {
                case "start" -> {
                    Map<String, Object> settings = new HashMap<>();
                    command.get("settings").fields().forEachRemaining(
                        each -> settings.put(each.getKey(), each.getValue().asText()));
                    Member member = new Member(command.get("topic").asText(), settings);
                    member.setDaemon(true);
                    members.put(name, member);
                    member.start();
                }
                case "stop" -> {
                    Member member = members.get(name);
                    member.running = false;
                    member.join(20_000);
                    answer = member.news();
                }
                default -> answer = members.get(name).news();
            }
            out.println(JSON.writeValueAsString(answer));
        }
    }
}
