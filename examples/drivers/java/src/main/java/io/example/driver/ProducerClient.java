package io.example.driver;

import com.fasterxml.jackson.databind.JsonNode;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Function;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.serialization.StringSerializer;

/** A producer, transactional or not. */
final class ProducerClient extends OpenClient {
    private final KafkaProducer<String, String> producer;
    private final Function<String, OpenClient> clients;

    ProducerClient(Map<String, Object> config, Function<String, OpenClient> clients) {
        this.producer = new KafkaProducer<>(config, new StringSerializer(), new StringSerializer());
        this.clients = clients;
    }

    @Override
    boolean isBounded(String method) {
        return method.equals("send") || method.equals("close");
    }

    @Override
    Object call(String method, JsonNode params, Duration timeout) throws Exception {
        switch (method) {
            case "send":
                return send(params, timeout);
            case "init_transactions":
                producer.initTransactions();
                break;
            case "begin":
                producer.beginTransaction();
                break;
            case "commit_transaction":
                producer.commitTransaction();
                break;
            case "abort_transaction":
                producer.abortTransaction();
                break;
            case "send_offsets":
                sendOffsets(params);
                break;
            case "close":
                producer.close(timeout);
                break;
            default:
                throw unsupported(method);
        }
        return Map.of();
    }

    private void sendOffsets(JsonNode params) {
        if (!(clients.apply(params.path("consumer").asText()) instanceof ConsumerClient consumer)) {
            throw new IllegalArgumentException(params.path("consumer") + " is not a consumer");
        }
        producer.sendOffsetsToTransaction(offsets(params), consumer.groupMetadata());
    }

    /** Gives all records to the client, which may wait for metadata longer than this call, then waits for each. */
    private Object send(JsonNode params, Duration timeout) throws InterruptedException {
        long deadline = System.nanoTime() + timeout.toNanos();
        List<CompletableFuture<RecordMetadata>> sent = new ArrayList<>();
        for (JsonNode record : params.path("records")) {
            CompletableFuture<RecordMetadata> future = new CompletableFuture<>();
            sent.add(future);
            inOrder(() -> sendOne(record(params, record), future));
        }
        List<Object> deliveries = new ArrayList<>();
        for (CompletableFuture<RecordMetadata> future : sent) {
            deliveries.add(delivery(future, Math.max(deadline - System.nanoTime(), 0)));
        }
        return Map.of("deliveries", deliveries);
    }

    private void sendOne(ProducerRecord<String, String> record, CompletableFuture<RecordMetadata> future) {
        try {
            producer.send(record, (delivered, error) -> {
                if (error == null) {
                    future.complete(delivered);
                } else {
                    future.completeExceptionally(error);
                }
            });
        } catch (RuntimeException error) {
            future.completeExceptionally(error);
        }
    }

    private static ProducerRecord<String, String> record(JsonNode params, JsonNode record) {
        JsonNode partition = record.hasNonNull("partition") ? record.path("partition") : params.path("partition");
        var made = new ProducerRecord<>(
                params.path("topic").asText(),
                partition.isNumber() ? partition.asInt() : null,
                record.hasNonNull("timestamp") ? record.path("timestamp").asLong() : null,
                record.path("key").textValue(),
                record.path("value").textValue());
        record.path("headers").forEach(header -> made.headers().add(header.get(0).asText(), bytes(header.get(1))));
        return made;
    }

    private static byte[] bytes(JsonNode text) {
        return text.isNull() ? null : text.asText().getBytes(StandardCharsets.UTF_8);
    }

    private static Object delivery(Future<RecordMetadata> future, long waitNanos) throws InterruptedException {
        try {
            RecordMetadata delivered = future.get(waitNanos, TimeUnit.NANOSECONDS);
            Map<String, Object> delivery = place(delivered.topic(), delivered.partition());
            delivery.put("offset", delivered.offset());
            delivery.put("timestamp", delivered.timestamp());
            return delivery;
        } catch (TimeoutException error) {
            return Map.of("error", Errors.describe(new TimeoutException("the record has not been delivered in time")));
        } catch (InterruptedException error) {
            throw error;
        } catch (Exception error) {
            return Map.of("error", Errors.describe(error));
        }
    }
}
