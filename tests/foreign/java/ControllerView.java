import java.util.AbstractMap;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import kafka.server.ControllerServer;
import org.apache.kafka.controller.Controller;
import org.mockito.Mockito;

/** The controllers of an external cluster: none to iterate over, and one to ask for topic ids. */
class ControllerView extends AbstractMap<Integer, ControllerServer> {
    private final ExternalCluster cluster;

    ControllerView(ExternalCluster cluster) {
        this.cluster = cluster;
    }

    @Override
    public Set<Map.Entry<Integer, ControllerServer>> entrySet() {
        return Set.of();
    }

    @Override
    public ControllerServer get(Object id) {
        Controller controller = BrokerView.proxy(Controller.class, (self, method, arguments) -> {
            if (method.getName().equals("findAllTopicIds")) {
                return CompletableFuture.completedFuture(BrokerView.topicIds(cluster));
            }
            throw BrokerView.unsupported("Controller", method.getName());
        });
        return Mockito.mock(ControllerServer.class, call -> {
            if (call.getMethod().getName().equals("controller")) {
                return controller;
            }
            throw BrokerView.unsupported("ControllerServer", call.getMethod().getName());
        });
    }
}
