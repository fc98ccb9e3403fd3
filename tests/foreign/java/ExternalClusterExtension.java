import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Function;
import java.util.stream.Stream;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.test.ClusterInstance;
import org.apache.kafka.common.test.api.AutoStart;
import org.apache.kafka.common.test.api.ClusterConfig;
import org.apache.kafka.common.test.api.ClusterConfigProperty;
import org.apache.kafka.common.test.api.ClusterFeature;
import org.apache.kafka.common.test.api.ClusterTemplate;
import org.apache.kafka.common.test.api.ClusterTest;
import org.apache.kafka.common.test.api.ClusterTestDefaults;
import org.apache.kafka.common.test.api.ClusterTests;
import org.apache.kafka.common.test.api.Type;
import org.apache.kafka.common.test.junit.RaftClusterInvocationContext;
import org.apache.kafka.server.common.Feature;
import org.junit.jupiter.api.extension.AfterEachCallback;
import org.junit.jupiter.api.extension.BeforeEachCallback;
import org.junit.jupiter.api.extension.Extension;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.jupiter.api.extension.ParameterContext;
import org.junit.jupiter.api.extension.ParameterResolver;
import org.junit.jupiter.api.extension.TestTemplateInvocationContext;
import org.junit.jupiter.api.extension.TestTemplateInvocationContextProvider;
import org.junit.platform.commons.support.ReflectionSupport;

/**
 * Takes the place of Kafka's own extension for cluster tests: each invocation gets a cluster outside of this virtual
 * machine, or with -Dforeign.real=true one of Kafka's own. A test with several types of cluster runs once: from outside
 * they are the same.
 */
public class ExternalClusterExtension implements TestTemplateInvocationContextProvider {
    private static final boolean IS_REAL = Boolean.getBoolean("foreign.real");

    @ClusterTestDefaults
    private static final class NoDefaults {
    }

    @Override
    public boolean supportsTestTemplate(ExtensionContext context) {
        Method method = context.getRequiredTestMethod();
        return method.isAnnotationPresent(ClusterTest.class)
            || method.isAnnotationPresent(ClusterTests.class)
            || method.isAnnotationPresent(ClusterTemplate.class);
    }

    @Override
    public Stream<TestTemplateInvocationContext> provideTestTemplateInvocationContexts(ExtensionContext context) {
        Function<ClusterConfig, TestTemplateInvocationContext> invocation =
            IS_REAL ? ExternalClusterExtension::createRealInvocation : Invocation::new;
        return readConfigs(context).stream().map(invocation);
    }

    private static TestTemplateInvocationContext createRealInvocation(ClusterConfig config) {
        boolean isCombined = config.clusterTypes().contains(Type.CO_KRAFT);
        return new RaftClusterInvocationContext("real", config, isCombined);
    }

    private static List<ClusterConfig> readConfigs(ExtensionContext context) {
        Method method = context.getRequiredTestMethod();
        ClusterTestDefaults ofClass = context.getRequiredTestClass().getAnnotation(ClusterTestDefaults.class);
        ClusterTestDefaults defaults =
            ofClass != null ? ofClass : NoDefaults.class.getAnnotation(ClusterTestDefaults.class);
        List<ClusterConfig> configs = new ArrayList<>();
        ClusterTemplate template = method.getAnnotation(ClusterTemplate.class);
        if (template != null) {
            configs.addAll(generateConfigs(context, template.value()));
        }
        ClusterTest single = method.getAnnotation(ClusterTest.class);
        if (single != null) {
            configs.add(readConfig(single, defaults));
        }
        ClusterTests several = method.getAnnotation(ClusterTests.class);
        if (several != null) {
            Arrays.stream(several.value()).map(test -> readConfig(test, defaults)).forEach(configs::add);
        }
        return configs;
    }

    private static Collection<ClusterConfig> generateConfigs(ExtensionContext context, String generator) {
        Method method = ReflectionSupport.findMethod(context.getRequiredTestClass(), generator).orElseThrow();
        List<ClusterConfig> configs = new ArrayList<>();
        for (Object config : (Collection<?>) ReflectionSupport.invokeMethod(method, null)) {
            configs.add((ClusterConfig) config);
        }
        return configs;
    }

    private static ClusterConfig readConfig(ClusterTest test, ClusterTestDefaults defaults) {
        Map<String, String> properties = new HashMap<>();
        Map<Integer, Map<String, String>> nodeProperties = new HashMap<>();
        Stream.of(defaults.serverProperties(), test.serverProperties()).flatMap(Arrays::stream)
            .forEach((ClusterConfigProperty property) -> {
                Map<String, String> target = property.id() == -1
                    ? properties
                    : nodeProperties.computeIfAbsent(property.id(), id -> new HashMap<>());
                target.put(property.key(), property.value());
            });
        Map<Feature, Short> features = new HashMap<>();
        for (ClusterFeature feature : test.features()) {
            features.put(feature.feature(), feature.version());
        }
        boolean isDefaultStart = test.autoStart() == AutoStart.DEFAULT;
        Type[] types = test.types().length == 0 ? defaults.types() : test.types();
        return ClusterConfig.defaultBuilder()
            .setTypes(Set.of(types))
            .setBrokers(test.brokers() == 0 ? defaults.brokers() : test.brokers())
            .setControllers(test.controllers() == 0 ? defaults.controllers() : test.controllers())
            .setAutoStart(isDefaultStart ? defaults.autoStart() : test.autoStart() == AutoStart.YES)
            .setBrokerListenerName(ListenerName.normalised(test.brokerListener()))
            .setBrokerSecurityProtocol(test.brokerSecurityProtocol())
            .setMetadataVersion(test.metadataVersion())
            .setServerProperties(properties)
            .setPerServerProperties(nodeProperties)
            .setFeatures(features)
            .build();
    }

    /** One invocation of a test, with a cluster of its own that ends with it. */
    private record Invocation(ClusterConfig config) implements TestTemplateInvocationContext {
        @Override
        public List<Extension> getAdditionalExtensions() {
            ExternalCluster cluster = new ExternalCluster(config);
            BeforeEachCallback start = context -> {
                if (config.isAutoStart()) {
                    cluster.start();
                }
            };
            AfterEachCallback stop = context -> cluster.stop();
            return List.of(new ClusterParameter(cluster), start, stop);
        }
    }

    private record ClusterParameter(ClusterInstance cluster) implements ParameterResolver {
        @Override
        public boolean supportsParameter(ParameterContext parameter, ExtensionContext context) {
            return parameter.getParameter().getType() == ClusterInstance.class;
        }

        @Override
        public Object resolveParameter(ParameterContext parameter, ExtensionContext context) {
            return cluster;
        }
    }
}
