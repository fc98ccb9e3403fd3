package io.example.mockbroker;

import org.junit.jupiter.api.extension.AfterEachCallback;
import org.junit.jupiter.api.extension.BeforeAllCallback;
import org.junit.jupiter.api.extension.BeforeEachCallback;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.jupiter.api.extension.ExtensionContext.Namespace;
import org.junit.jupiter.api.extension.ParameterContext;
import org.junit.jupiter.api.extension.ParameterResolver;

/**
 * Gives the tests of a class a {@link MockBroker}, by a parameter of this type.
 *
 * <p>In a static field, {@code @RegisterExtension static final MockBrokerExtension KAFKA = withOptions("--topic",
 * "orders:2")}, or by {@code @ExtendWith(MockBrokerExtension.class)}, one process serves all tests of the class, and is
 * reset before each of them. A test that passes fails after all if one of its faults has not acted.
 */
public final class MockBrokerExtension
        implements BeforeAllCallback, BeforeEachCallback, AfterEachCallback, ParameterResolver {
    private static final Namespace NAMESPACE = Namespace.create(MockBrokerExtension.class);

    private final String[] options;

    /** A cluster without topics. */
    public MockBrokerExtension() {
        this(new String[0]);
    }

    private MockBrokerExtension(String[] options) {
        this.options = options;
    }

    /** A cluster with options of the command {@code mockbroker}. */
    public static MockBrokerExtension withOptions(String... options) {
        return new MockBrokerExtension(options.clone());
    }

    @Override
    public void beforeAll(ExtensionContext context) {
        broker(context);
    }

    @Override
    public void beforeEach(ExtensionContext context) {
        broker(context).reset();
    }

    @Override
    public void afterEach(ExtensionContext context) {
        if (context.getExecutionException().isEmpty()) {
            broker(context).assertFaultsActed();
        }
    }

    @Override
    public boolean supportsParameter(ParameterContext parameter, ExtensionContext context) {
        return parameter.getParameter().getType() == MockBroker.class;
    }

    @Override
    public MockBroker resolveParameter(ParameterContext parameter, ExtensionContext context) {
        return broker(context);
    }

    /** The process of the class, or of the test if the extension is registered in an instance field. */
    private MockBroker broker(ExtensionContext context) {
        return context.getStore(NAMESPACE)
            .getOrComputeIfAbsent(this, key -> new Resource(MockBroker.start(options)), Resource.class)
            .broker();
    }

    /** JUnit closes it at the end of the class, or of the test, whatever their results are. */
    private record Resource(MockBroker broker) implements AutoCloseable {
        @Override
        public void close() {
            broker.close();
        }
    }
}
