package io.example.mockbroker;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

class OrdersTest {
    @RegisterExtension
    static final MockBrokerExtension KAFKA = MockBrokerExtension.withOptions("--topic", "orders:1");

    private static void send(MockBroker kafka, String value) throws Exception {
        Map<String, Object> settings =
            Map.of("bootstrap.servers", kafka.bootstrapServers(), "client.id", "shop", "retry.backoff.ms", 10);
        try (var producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            producer.send(new ProducerRecord<>("orders", value)).get(10, TimeUnit.SECONDS);
        }
    }

    @Test
    void aProducerRetriesWhenTheLeaderHasMoved(MockBroker kafka) throws Exception {
        kafka.addFault(
            Map.of("api", "Produce", "topic", "orders", "times", 2), Map.of("error", "NOT_LEADER_OR_FOLLOWER"));

        send(kafka, "one espresso");

        kafka.assertCount(3, "Produce", Map.of("topic", "orders", "clientId", "shop"));
        kafka.assertCount(2, "Produce", Map.of("error", "NOT_LEADER_OR_FOLLOWER"));
    }

    @Test
    void aConsumerCommitsWhatItHasRead(MockBroker kafka) throws Exception {
        send(kafka, "one espresso");
        Map<String, Object> settings = Map.of(
            "bootstrap.servers", kafka.bootstrapServers(), "group.id", "kitchen", "auto.offset.reset", "earliest");
        try (var consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of("orders"));
            ConsumerRecords<String, String> records = ConsumerRecords.empty();
            for (int polls = 0; records.isEmpty() && polls < 100; polls++) {
                records = consumer.poll(Duration.ofMillis(100));
            }
            consumer.commitAsync();
            consumer.poll(Duration.ZERO);

            assertEquals("one espresso", records.iterator().next().value());
            kafka.waitForGroup("kitchen", "Stable", 1);
            kafka.waitForOffset("kitchen", "orders", 0, 1);
        }
    }

    // What the helpers report.

    @Test
    void aFailingAssertionShowsTheNearestRequests(MockBroker kafka) throws Exception {
        send(kafka, "one espresso");

        var error = assertThrows(
            AssertionError.class, () -> kafka.assertCount(1, "Produce", Map.of("clientId", "kitchen")));

        assertTrue(error.getMessage().contains("but there are 0"), error.getMessage());
        assertTrue(error.getMessage().contains("client \"shop\", topics {\"orders\":[0]}"), error.getMessage());
    }

    @Test
    void aFaultThatHasNotActedIsReported(MockBroker kafka) {
        kafka.addFault(Map.of("api", "Produce"), Map.of("error", "NOT_LEADER_OR_FOLLOWER"));

        var error = assertThrows(AssertionError.class, kafka::assertFaultsActed);

        assertTrue(error.getMessage().contains("no requests of Produce came"), error.getMessage());
        kafka.reset();
    }

    @Test
    void theProcessEndsWhenItIsClosed() {
        MockBroker closed = MockBroker.start();
        closed.close();

        assertFalse(closed.isRunning());
        assertThrows(IllegalStateException.class, () -> MockBroker.start("--port", "70000"));
    }
}
