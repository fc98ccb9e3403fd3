package io.example.driver;

import com.fasterxml.jackson.databind.JsonNode;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;

/** A client and the thread that calls it: some of its methods wait longer than a request of the protocol may. */
abstract class OpenClient {
    private static final long GRACE_MS = 8_000;

    private final ExecutorService thread = Executors.newSingleThreadExecutor(task -> {
        Thread created = new Thread(task, "driver-client");
        created.setDaemon(true);
        return created;
    });

    /** Carries out a method of the protocol. Returns its result, made of maps, lists and values of JSON. */
    abstract Object call(String method, JsonNode params, Duration timeout) throws Exception;

    /** Whether `call` is made by the thread that reads requests: it returns in time, beside a call that does not. */
    boolean isBounded(String method) {
        return false;
    }

    final void inOrder(Runnable task) {
        thread.execute(task);
    }

    final Object run(String method, JsonNode params, long timeoutMs) throws Exception {
        if (isBounded(method)) {
            return call(method, params, Duration.ofMillis(timeoutMs));
        }
        var result = thread.submit(() -> call(method, params, Duration.ofMillis(timeoutMs)));
        try {
            return result.get(timeoutMs + GRACE_MS, TimeUnit.MILLISECONDS);
        } catch (TimeoutException error) {
            throw new TimeoutException(method + " has not returned " + GRACE_MS + " ms after its time limit");
        }
    }

    static UnsupportedOperationException unsupported(String method) {
        return new UnsupportedOperationException("method " + method + " of this kind of client");
    }

    static TopicPartition partition(JsonNode place) {
        return new TopicPartition(place.path("topic").asText(), place.path("partition").asInt());
    }

    static List<TopicPartition> partitions(JsonNode params) {
        List<TopicPartition> partitions = new ArrayList<>();
        params.path("partitions").forEach(place -> partitions.add(partition(place)));
        return partitions;
    }

    static Map<TopicPartition, OffsetAndMetadata> offsets(JsonNode params) {
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        params.path("offsets").forEach(
                place -> offsets.put(partition(place), new OffsetAndMetadata(place.path("offset").asLong())));
        return offsets;
    }

    static List<String> strings(JsonNode list) {
        List<String> strings = new ArrayList<>();
        list.forEach(item -> strings.add(item.asText()));
        return strings;
    }

    static Map<String, Object> place(String topic, int partition) {
        Map<String, Object> place = new TreeMap<>();
        place.put("topic", topic);
        place.put("partition", partition);
        return place;
    }

    static Map<String, Object> place(TopicPartition partition, Long offset) {
        Map<String, Object> place = place(partition.topic(), partition.partition());
        place.put("offset", offset);
        return place;
    }

    static List<Object> places(Collection<TopicPartition> partitions) {
        return partitions.stream().<Object>map(found -> place(found.topic(), found.partition())).toList();
    }

    static Map<String, Object> record(ConsumerRecord<String, String> received) {
        Map<String, Object> record = place(received.topic(), received.partition());
        record.put("offset", received.offset());
        record.put("key", received.key());
        record.put("value", received.value());
        record.put("timestamp", received.timestamp());
        received.deliveryCount().ifPresent(count -> record.put("delivery_count", count));
        List<Object> headers = new ArrayList<>();
        received.headers().forEach(header -> headers.add(Arrays.asList(header.key(), text(header.value()))));
        record.put("headers", headers);
        return record;
    }

    private static String text(byte[] bytes) {
        return bytes == null ? null : new String(bytes, StandardCharsets.UTF_8);
    }
}
