import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Proxy;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import kafka.network.SocketServer;
import kafka.server.KafkaBroker;
import kafka.server.KafkaConfig;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ListTopicsOptions;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.admin.TopicListing;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.coordinator.group.GroupCoordinator;
import org.apache.kafka.metadata.LeaderAndIsr;
import org.apache.kafka.metadata.MetadataCache;
import org.mockito.Mockito;

/** A broker of an external cluster, seen through the Admin client. */
class BrokerView {
    private static final int NO_LEADER = -1;

    private final ExternalCluster cluster;
    private final int id;

    private BrokerView(ExternalCluster cluster, int id) {
        this.cluster = cluster;
        this.id = id;
    }

    /** A KafkaBroker whose other methods throw UnsupportedOperationException. */
    static KafkaBroker create(ExternalCluster cluster, int id) {
        BrokerView view = new BrokerView(cluster, id);
        return proxy(KafkaBroker.class, (self, method, arguments) -> switch (method.getName()) {
            case "config" -> view.config();
            case "groupCoordinator" -> view.groupCoordinator();
            case "metadataCache" -> view.metadataCache();
            case "socketServer" -> view.socketServer();
            case "boundPort" -> cluster.port(id);
            case "isShutdown" -> cluster.isStopped(id);
            case "clusterId" -> cluster.clusterId();
            case "hashCode" -> id;
            case "equals" -> self == arguments[0];
            case "toString" -> "broker " + id;
            default -> throw unsupported("KafkaBroker", method.getName());
        });
    }

    /** The properties of the cluster, and what was altered since; of a stopped broker only the former. */
    private KafkaConfig config() {
        Map<String, Object> values = new HashMap<>(cluster.config().serverProperties());
        values.putAll(cluster.config().perServerOverrideProperties().getOrDefault(id, Map.of()));
        if (!cluster.isStopped(id)) {
            values.putAll(alteredConfigs());
        }
        values.put("process.roles", "broker,controller");
        values.put("node.id", String.valueOf(id));
        values.put("controller.quorum.voters", id + "@localhost:1");
        values.put("listeners", "PLAINTEXT://localhost:2,CONTROLLER://localhost:1");
        values.put("controller.listener.names", "CONTROLLER");
        values.put("listener.security.protocol.map", "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT");
        values.put("log.dirs", "/nonexistent");
        return new KafkaConfig(values);
    }

    private Map<String, String> alteredConfigs() {
        ConfigResource resource = new ConfigResource(ConfigResource.Type.BROKER, String.valueOf(id));
        Map<String, String> altered = new HashMap<>();
        Config described = cluster.ask(admin -> admin.describeConfigs(List.of(resource)).all()).get(resource);
        for (ConfigEntry entry : described.entries()) {
            boolean isDynamic = entry.source() == ConfigEntry.ConfigSource.DYNAMIC_BROKER_CONFIG
                || entry.source() == ConfigEntry.ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG;
            if (isDynamic && entry.value() != null) {
                altered.put(entry.name(), entry.value());
            }
        }
        return altered;
    }

    private GroupCoordinator groupCoordinator() {
        return proxy(GroupCoordinator.class, (self, method, arguments) -> {
            if (!method.getName().equals("groupMetadataTopicConfigs")) {
                throw unsupported("GroupCoordinator", method.getName());
            }
            Properties configs = new Properties();
            configs.put("cleanup.policy", "compact");
            return configs;
        });
    }

    private MetadataCache metadataCache() {
        return proxy(MetadataCache.class, (self, method, arguments) -> switch (method.getName()) {
            case "numPartitions" -> topic(arguments[0]).map(topic -> topic.partitions().size());
            case "getLeaderAndIsr" ->
                topic(arguments[0]).map(topic -> leaderAndIsr(topic.partitions().get((Integer) arguments[1])));
            case "contains" -> contains(arguments[0]);
            case "getTopicId" -> topic(arguments[0]).map(TopicDescription::topicId).orElse(Uuid.ZERO_UUID);
            case "topicNamesToIds" -> topicIds(cluster);
            case "topicIdsToNames" -> {
                Map<Uuid, String> names = new HashMap<>();
                topicIds(cluster).forEach((name, topicId) -> names.put(topicId, name));
                yield names;
            }
            default -> throw unsupported("MetadataCache", method.getName());
        });
    }

    private SocketServer socketServer() {
        return Mockito.mock(SocketServer.class, call -> {
            if (call.getMethod().getName().equals("boundPort")) {
                return cluster.port(id);
            }
            throw unsupported("SocketServer", call.getMethod().getName());
        });
    }

    private Optional<TopicDescription> topic(Object name) {
        return Optional.ofNullable(cluster.describe((String) name));
    }

    private boolean contains(Object wanted) {
        if (wanted instanceof TopicPartition partition) {
            Optional<TopicDescription> found = topic(partition.topic());
            return found.isPresent() && partition.partition() < found.get().partitions().size();
        }
        return topic(wanted).isPresent();
    }

    private static LeaderAndIsr leaderAndIsr(TopicPartitionInfo partition) {
        boolean hasLeader = partition.leader() != null && !partition.leader().isEmpty();
        return new LeaderAndIsr(
            hasLeader ? partition.leader().id() : NO_LEADER,
            partition.isr().stream().map(Node::id).toList());
    }

    /** The ids of all topics by name. */
    static Map<String, Uuid> topicIds(ExternalCluster cluster) {
        Map<String, Uuid> ids = new HashMap<>();
        ListTopicsOptions options = new ListTopicsOptions().listInternal(true);
        for (TopicListing topic : cluster.ask(admin -> admin.listTopics(options).listings())) {
            ids.put(topic.name(), topic.topicId());
        }
        return ids;
    }

    static UnsupportedOperationException unsupported(String type, String method) {
        return new UnsupportedOperationException("inside the server: " + type + "." + method);
    }

    @SuppressWarnings("unchecked")
    static <T> T proxy(Class<T> type, InvocationHandler handler) {
        return (T) Proxy.newProxyInstance(type.getClassLoader(), new Class<?>[] {type}, handler);
    }
}
