import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.kafka.coordinator.group.api.streams.StreamsGroupTopologyDescription;
import org.apache.kafka.coordinator.group.api.streams.StreamsGroupTopologyDescriptionPlugin;

/** Keeps the topology descriptions of streams groups in memory. */
public class TopologyDescriptions implements StreamsGroupTopologyDescriptionPlugin {
  private final Map<String, StreamsGroupTopologyDescription> stored = new ConcurrentHashMap<>();

  @Override
  public void configure(Map<String, ?> configs) {}

  @Override
  public CompletableFuture<Void> setTopology(String groupId, int epoch, StreamsGroupTopologyDescription description) {
    stored.put(groupId, description);
    return CompletableFuture.completedFuture(null);
  }

  @Override
  public CompletableFuture<StreamsGroupTopologyDescription> getTopology(String groupId, int epoch) {
    return CompletableFuture.completedFuture(stored.get(groupId));
  }

  @Override
  public CompletableFuture<Void> deleteTopology(String groupId) {
    stored.remove(groupId);
    return CompletableFuture.completedFuture(null);
  }

  @Override
  public void close() {}
}
