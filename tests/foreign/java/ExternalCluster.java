import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ExecutionException;
import java.util.function.Function;
import java.util.stream.Collectors;
import kafka.server.ControllerServer;
import kafka.server.KafkaBroker;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.GroupProtocol;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.test.ClusterInstance;
import org.apache.kafka.common.test.api.ClusterConfig;
import org.apache.kafka.common.test.api.Type;
import org.apache.kafka.server.common.MetadataVersion;
import org.apache.kafka.server.fault.FaultHandlerException;
import org.apache.kafka.test.TestUtils;

/**
 * A cluster outside of this virtual machine, which is requested on the channel. What tests ask of the servers
 * themselves is answered by the Admin client as far as it can be (BrokerView); the rest is an
 * UnsupportedOperationException that names the method.
 */
class ExternalCluster implements ClusterInstance {
    private static final long TOPIC_TIMEOUT_MS = 60_000;
    private static final String PROTOCOLS = "group.coordinator.rebalance.protocols";

    private final ClusterConfig config;
    private final Map<Integer, String> addresses = new TreeMap<>();
    private final Set<Integer> stoppedNodes = new TreeSet<>();
    private boolean started;
    /** One client for all questions of this class and of the views: some tests depend on quick answers. */
    private Admin client;

    ExternalCluster(ClusterConfig config) {
        this.config = config;
    }

    @Override
    public void start() {
        ObjectNode request = Channel.shared().newMessage();
        request.put("cluster", "start");
        request.put("nodes", config.numBrokers());
        ObjectNode properties = request.putObject("properties");
        config.serverProperties().forEach(properties::put);
        ObjectNode nodeProperties = request.putObject("node_properties");
        config.perServerOverrideProperties().forEach((id, values) -> {
            ObjectNode ofNode = nodeProperties.putObject(String.valueOf(id));
            values.forEach(ofNode::put);
        });
        ObjectNode features = request.putObject("features");
        if (config.metadataVersion().isProduction()) {
            features.put(MetadataVersion.FEATURE_NAME, config.metadataVersion().featureLevel());
        }
        config.features().forEach((feature, level) -> features.put(feature.featureName(), level));
        setAddresses(Channel.shared().request(request));
        client = admin();
        started = true;
    }

    @Override
    public void stop() {
        if (started) {
            started = false;
            client.close(Duration.ZERO);
            request("stop");
        }
    }

    @Override
    public void shutdownBroker(int brokerId) {
        request("stop-node", brokerId);
        stoppedNodes.add(brokerId);
    }

    @Override
    public void startBroker(int brokerId) {
        setAddresses(request("start-node", brokerId));
        stoppedNodes.remove(brokerId);
    }

    private JsonNode request(String command) {
        ObjectNode message = Channel.shared().newMessage();
        message.put("cluster", command);
        return Channel.shared().request(message);
    }

    private JsonNode request(String command, int node) {
        ObjectNode message = Channel.shared().newMessage();
        message.put("cluster", command);
        message.put("node", node);
        return Channel.shared().request(message);
    }

    private void setAddresses(JsonNode response) {
        response.get("addresses").properties()
            .forEach(entry -> addresses.put(Integer.valueOf(entry.getKey()), entry.getValue().asText()));
    }

    boolean isStopped(int brokerId) {
        return !started || stoppedNodes.contains(brokerId);
    }

    int port(int brokerId) {
        String address = addresses.get(brokerId);
        return Integer.parseInt(address.substring(address.lastIndexOf(':') + 1));
    }

    /** The answer to a question. Throws: IllegalStateException with the error. */
    <T> T ask(Function<Admin, KafkaFuture<T>> question) {
        try {
            return question.apply(client).get();
        } catch (InterruptedException | ExecutionException failure) {
            throw new IllegalStateException(failure);
        }
    }

    /** The description of a topic, or null if there is none. */
    TopicDescription describe(String topic) {
        try {
            return client.describeTopics(List.of(topic)).allTopicNames().get().get(topic);
        } catch (ExecutionException missing) {
            return null;
        } catch (InterruptedException interrupted) {
            throw new IllegalStateException(interrupted);
        }
    }

    @Override
    public Type type() {
        return Type.KRAFT;
    }

    @Override
    public ClusterConfig config() {
        return config;
    }

    @Override
    public Map<Integer, KafkaBroker> brokers() {
        return addresses.keySet().stream().collect(Collectors.toMap(id -> id, id -> BrokerView.create(this, id)));
    }

    @Override
    public Set<Integer> brokerIds() {
        return addresses.keySet();
    }

    @Override
    public Map<Integer, ControllerServer> controllers() {
        return new ControllerView(this);
    }

    @Override
    public Set<Integer> controllerIds() {
        return Set.of(0);
    }

    @Override
    public ListenerName clientListener() {
        return config.brokerListenerName();
    }

    @Override
    public ListenerName controllerListenerName() {
        return config.controllerListenerName();
    }

    @Override
    public String bootstrapServers() {
        return String.join(",", addresses.values());
    }

    @Override
    public String bootstrapControllers() {
        // The brokers refuse what only a controller answers.
        return bootstrapServers();
    }

    @Override
    public List<Integer> brokerBoundPorts() {
        return addresses.keySet().stream().map(this::port).toList();
    }

    @Override
    public List<Integer> controllerBoundPorts() {
        throw new UnsupportedOperationException("there is no controller that answers clients");
    }

    @Override
    public String clusterId() {
        return ask(admin -> admin.describeCluster().clusterId());
    }

    @Override
    public Set<GroupProtocol> supportedGroupProtocols() {
        String protocols = config.serverProperties().getOrDefault(PROTOCOLS, "classic,consumer");
        return protocols.contains("consumer")
            ? Set.of(GroupProtocol.CLASSIC, GroupProtocol.CONSUMER)
            : Set.of(GroupProtocol.CLASSIC);
    }

    @Override
    public Optional<FaultHandlerException> firstFatalException() {
        return Optional.empty();
    }

    @Override
    public Optional<FaultHandlerException> firstNonFatalException() {
        return Optional.empty();
    }

    @Override
    public boolean started() {
        return started;
    }

    @Override
    public boolean stopped() {
        return !started;
    }

    @Override
    public void waitTopicCreation(String topic, int partitions) throws InterruptedException {
        TestUtils.waitForCondition(() -> {
            TopicDescription found = describe(topic);
            return found != null && found.partitions().size() == partitions
                && found.partitions().stream().allMatch(partition -> isServed(partition.leader(), partition.replicas()));
        }, TOPIC_TIMEOUT_MS, topic + " was not created");
    }

    /** A partition has a leader, unless all its replicas were stopped. */
    private boolean isServed(Node leader, List<Node> replicas) {
        List<Integer> ids = new ArrayList<>(replicas.stream().map(Node::id).toList());
        return (leader != null && !leader.isEmpty()) || stoppedNodes.containsAll(ids);
    }

    @Override
    public void waitTopicDeletion(String topic) throws InterruptedException {
        TestUtils.waitForCondition(() -> describe(topic) == null, TOPIC_TIMEOUT_MS, topic + " was not deleted");
    }

    @Override
    public void waitForReadyBrokers() {
        // The response to "start" arrives when all nodes respond.
    }

    @Override
    public void ensureConsistentMetadata() {
        // The nodes of another process do not say which metadata they have applied; tests wait for what they read.
    }
}
