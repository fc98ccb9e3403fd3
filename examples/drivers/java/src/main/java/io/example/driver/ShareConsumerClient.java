package io.example.driver;

import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

/** A member of a share group. */
final class ShareConsumerClient extends OpenClient {
    private final KafkaShareConsumer<String, String> consumer;
    private final Polling polling;
    /** Records by partition and offset: the client takes acknowledgements of the objects that it returned. */
    private final Map<List<Object>, ConsumerRecord<String, String>> received = new HashMap<>();

    ShareConsumerClient(Map<String, Object> config) {
        consumer = new KafkaShareConsumer<>(config, new StringDeserializer(), new StringDeserializer());
        polling = new Polling(consumer::poll, consumer::wakeup);
        consumer.setAcknowledgementCommitCallback(this::addAcknowledged);
    }

    @Override
    Object call(String method, JsonNode params, Duration timeout) {
        switch (method) {
            case "poll":
                return polling.poll(params, timeout, this::keep);
            case "commit":
                return Map.of("partitions", commit(timeout));
            case "lock_timeout":
                Map<String, Object> result = new HashMap<>();
                result.put("timeout_ms", consumer.acquisitionLockTimeoutMs().orElse(null));
                return result;
            case "close":
                consumer.close(timeout);
                return Map.of("events", polling.takeEvents());
            case "subscribe":
                subscribe(params);
                break;
            case "unsubscribe":
                consumer.unsubscribe();
                break;
            case "commit_async":
                consumer.commitAsync();
                break;
            case "acknowledge":
                params.path("records").forEach(this::acknowledge);
                break;
            default:
                throw unsupported(method);
        }
        return Map.of();
    }

    private void subscribe(JsonNode params) {
        if (params.hasNonNull("pattern")) {
            throw new UnsupportedOperationException("a share consumer subscribes to names of topics only");
        }
        consumer.subscribe(strings(params.path("topics")));
    }

    private void keep(ConsumerRecord<String, String> record) {
        received.put(List.of(record.topic(), record.partition(), record.offset()), record);
    }

    private void acknowledge(JsonNode params) {
        AcknowledgeType type = AcknowledgeType.valueOf(params.path("type").asText().toUpperCase(Locale.ROOT));
        String topic = params.path("topic").asText();
        int partition = params.path("partition").asInt();
        long offset = params.path("offset").asLong();
        ConsumerRecord<String, String> record = received.get(List.of(topic, partition, offset));
        if (record == null) {
            consumer.acknowledge(topic, partition, offset, type);
        } else {
            consumer.acknowledge(record, type);
        }
    }

    private List<Object> commit(Duration timeout) {
        List<Object> partitions = new ArrayList<>();
        consumer.commitSync(timeout).forEach((partition, error) -> {
            Map<String, Object> result = place(partition.topic(), partition.partition());
            result.put("error", Errors.describeOrNull(error.orElse(null)));
            partitions.add(result);
        });
        return partitions;
    }

    private void addAcknowledged(Map<TopicIdPartition, Set<Long>> offsets, Exception error) {
        offsets.forEach((partition, acknowledged) -> {
            Map<String, Object> event = place(partition.topic(), partition.partition());
            event.put("type", "acknowledged");
            event.put("offsets", acknowledged.stream().sorted().toList());
            event.put("error", Errors.describeOrNull(error));
            polling.add(event);
        });
    }
}
