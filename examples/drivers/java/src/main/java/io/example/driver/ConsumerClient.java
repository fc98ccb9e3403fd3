package io.example.driver;

import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.regex.Pattern;
import org.apache.kafka.clients.consumer.CloseOptions;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

/** A consumer with assigned partitions, or in a group of either protocol. */
final class ConsumerClient extends OpenClient implements ConsumerRebalanceListener {
    private final KafkaConsumer<String, String> consumer;
    private final Polling polling;
    private final boolean matchesOnBroker;

    ConsumerClient(Map<String, Object> config) {
        consumer = new KafkaConsumer<>(config, new StringDeserializer(), new StringDeserializer());
        polling = new Polling(consumer::poll, consumer::wakeup);
        matchesOnBroker = "consumer".equals(config.get("group.protocol"));
    }

    ConsumerGroupMetadata groupMetadata() {
        return consumer.groupMetadata();
    }

    @Override
    Object call(String method, JsonNode params, Duration timeout) {
        switch (method) {
            case "poll":
                return polling.poll(params, timeout, record -> { });
            case "committed":
                return Map.of("offsets", committed(params, timeout));
            case "position":
                return Map.of("offsets", partitions(params).stream()
                        .map(found -> place(found, consumer.position(found, timeout))).toList());
            case "assignment":
                return Map.of("partitions", places(consumer.assignment()));
            case "close":
                consumer.close(CloseOptions.timeout(timeout));
                return Map.of("events", polling.takeEvents());
            default:
                change(method, params, timeout);
                return Map.of();
        }
    }

    private void change(String method, JsonNode params, Duration timeout) {
        switch (method) {
            case "subscribe" -> subscribe(params);
            case "unsubscribe" -> consumer.unsubscribe();
            case "assign" -> assign(params);
            case "commit" -> commit(params, timeout);
            case "commit_async" -> consumer.commitAsync((offsets, error) -> polling.add(committedEvent(error)));
            case "seek" -> consumer.seek(partition(params), params.path("offset").asLong());
            case "pause" -> consumer.pause(partitions(params));
            case "resume" -> consumer.resume(partitions(params));
            default -> throw unsupported(method);
        }
    }

    private void subscribe(JsonNode params) {
        if (!params.hasNonNull("pattern")) {
            consumer.subscribe(strings(params.path("topics")), this);
        } else if (matchesOnBroker) {
            consumer.subscribe(new SubscriptionPattern(params.path("pattern").asText()), this);
        } else {
            consumer.subscribe(Pattern.compile(params.path("pattern").asText()), this);
        }
    }

    private void assign(JsonNode params) {
        consumer.assign(partitions(params));
        for (JsonNode place : params.path("partitions")) {
            JsonNode offset = place.path("offset");
            if (offset.isNumber()) {
                consumer.seek(partition(place), offset.asLong());
            } else if (offset.asText().equals("earliest")) {
                consumer.seekToBeginning(List.of(partition(place)));
            } else if (offset.asText().equals("latest")) {
                consumer.seekToEnd(List.of(partition(place)));
            }
        }
    }

    private void commit(JsonNode params, Duration timeout) {
        if (params.hasNonNull("offsets")) {
            consumer.commitSync(offsets(params), timeout);
        } else {
            consumer.commitSync(timeout);
        }
    }

    private List<Object> committed(JsonNode params, Duration timeout) {
        List<TopicPartition> asked = partitions(params);
        var offsets = consumer.committed(new HashSet<>(asked), timeout);
        List<Object> found = new ArrayList<>();
        for (TopicPartition partition : asked) {
            var offset = offsets.get(partition);
            found.add(place(partition, offset == null ? null : offset.offset()));
        }
        return found;
    }

    private static Map<String, Object> committedEvent(Exception error) {
        Map<String, Object> event = new HashMap<>();
        event.put("type", "committed");
        event.put("error", Errors.describeOrNull(error));
        return event;
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
        polling.add(Map.of("type", "assigned", "partitions", places(partitions)));
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
        polling.add(Map.of("type", "revoked", "partitions", places(partitions)));
    }

    @Override
    public void onPartitionsLost(Collection<TopicPartition> partitions) {
        polling.add(Map.of("type", "lost", "partitions", places(partitions)));
    }
}
