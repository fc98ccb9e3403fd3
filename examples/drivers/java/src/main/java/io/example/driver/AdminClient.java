package io.example.driver;

import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.CreatePartitionsOptions;
import org.apache.kafka.clients.admin.CreateTopicsOptions;
import org.apache.kafka.clients.admin.DeleteTopicsOptions;
import org.apache.kafka.clients.admin.DescribeClusterOptions;
import org.apache.kafka.clients.admin.ListOffsetsOptions;
import org.apache.kafka.clients.admin.ListTopicsOptions;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;

/** An administrator: topics, the cluster, offsets. */
final class AdminClient extends OpenClient {
    private final Admin admin;

    AdminClient(Map<String, Object> config) {
        admin = Admin.create(config);
    }

    @Override
    Object call(String method, JsonNode params, Duration timeout) throws Exception {
        int timeoutMs = (int) timeout.toMillis();
        switch (method) {
            case "create_topics":
                List<NewTopic> topics = new ArrayList<>();
                params.path("topics").forEach(topic -> topics.add(newTopic(topic)));
                admin.createTopics(topics, new CreateTopicsOptions().timeoutMs(timeoutMs)).all().get();
                break;
            case "delete_topics":
                var deleted = strings(params.path("topics"));
                admin.deleteTopics(deleted, new DeleteTopicsOptions().timeoutMs(timeoutMs)).all().get();
                break;
            case "create_partitions":
                Map<String, NewPartitions> counts = new HashMap<>();
                params.path("topics").forEach(topic -> counts.put(
                        topic.path("name").asText(), NewPartitions.increaseTo(topic.path("count").asInt())));
                admin.createPartitions(counts, new CreatePartitionsOptions().timeoutMs(timeoutMs)).all().get();
                break;
            case "list_topics":
                var names = admin.listTopics(new ListTopicsOptions().timeoutMs(timeoutMs)).names().get();
                return Map.of("topics", new TreeSet<>(names));
            case "describe_cluster":
                return describeCluster(timeoutMs);
            case "list_offsets":
                return Map.of("offsets", listOffsets(params, timeoutMs));
            case "close":
                admin.close(timeout);
                break;
            default:
                throw unsupported(method);
        }
        return Map.of();
    }

    private static NewTopic newTopic(JsonNode topic) {
        short replicationFactor = (short) topic.path("replication_factor").asInt();
        return new NewTopic(topic.path("name").asText(), topic.path("partitions").asInt(), replicationFactor);
    }

    private Map<String, Object> describeCluster(int timeoutMs) throws Exception {
        var cluster = admin.describeCluster(new DescribeClusterOptions().timeoutMs(timeoutMs));
        Node controller = cluster.controller().get();
        Map<String, Object> result = new HashMap<>();
        result.put("cluster_id", cluster.clusterId().get());
        result.put("controller", controller == null || controller.isEmpty() ? null : controller.id());
        result.put("nodes", cluster.nodes().get().stream()
                .map(node -> Map.of("id", node.id(), "host", node.host(), "port", node.port()))
                .toList());
        return result;
    }

    private List<Object> listOffsets(JsonNode params, int timeoutMs) throws Exception {
        Map<TopicPartition, OffsetSpec> specs = new LinkedHashMap<>();
        params.path("partitions").forEach(place -> specs.put(partition(place), spec(place.path("spec"))));
        var offsets = admin.listOffsets(specs, new ListOffsetsOptions().timeoutMs(timeoutMs)).all().get();
        List<Object> found = new ArrayList<>();
        for (TopicPartition partition : specs.keySet()) {
            long offset = offsets.get(partition).offset();
            found.add(place(partition, offset < 0 ? null : offset));
        }
        return found;
    }

    private static OffsetSpec spec(JsonNode spec) {
        if (spec.isNumber()) {
            return OffsetSpec.forTimestamp(spec.asLong());
        }
        return spec.asText().equals("earliest") ? OffsetSpec.earliest() : OffsetSpec.latest();
    }
}
