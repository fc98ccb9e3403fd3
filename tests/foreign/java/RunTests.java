import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.util.HashMap;
import java.util.Map;
import org.junit.platform.engine.DiscoverySelector;
import org.junit.platform.engine.TestExecutionResult;
import org.junit.platform.engine.TestSource;
import org.junit.platform.engine.UniqueId;
import org.junit.platform.engine.discovery.DiscoverySelectors;
import org.junit.platform.engine.support.descriptor.ClassSource;
import org.junit.platform.engine.support.descriptor.MethodSource;
import org.junit.platform.launcher.Launcher;
import org.junit.platform.launcher.TestExecutionListener;
import org.junit.platform.launcher.TestIdentifier;
import org.junit.platform.launcher.core.LauncherDiscoveryRequestBuilder;
import org.junit.platform.launcher.core.LauncherFactory;

/**
 * Runs JUnit tests one after another, as requested on standard input: each line is {"run": SELECTOR}, the selector a
 * class or CLASS#METHOD(TYPES). Writes one line for each test that ended, then {"done": SELECTOR}. Between them, the
 * tests request clusters on the same channel (Channel.java).
 */
public class RunTests {
    private static final int MESSAGE_LENGTH_MAX = 2_000;

    private final Channel channel;
    private final Launcher launcher = LauncherFactory.create();

    private RunTests(Channel channel) {
        this.channel = channel;
    }

    public static void main(String[] arguments) throws IOException {
        Channel channel = Channel.open(System.in, System.out);
        // Both streams belong to the channel; the tests get others.
        System.setIn(new ByteArrayInputStream(new byte[0]));
        System.setOut(new PrintStream(System.err, true));
        RunTests tests = new RunTests(channel);
        for (String selector = channel.readSelector(); selector != null; selector = channel.readSelector()) {
            tests.run(selector);
        }
        // Threads that a test left behind do not keep the process.
        Runtime.getRuntime().halt(0);
    }

    private void run(String selector) {
        DiscoverySelector discovery = selector.contains("#")
            ? DiscoverySelectors.selectMethod(selector)
            : DiscoverySelectors.selectClass(selector);
        launcher.execute(LauncherDiscoveryRequestBuilder.request().selectors(discovery).build(), new Reporter());
        ObjectNode done = channel.newMessage();
        done.put("done", selector);
        channel.write(done);
    }

    /** Writes the result of each test, and of each container that failed or was skipped. */
    private class Reporter implements TestExecutionListener {
        private final Map<UniqueId, Long> startedAt = new HashMap<>();

        @Override
        public void executionStarted(TestIdentifier test) {
            startedAt.put(test.getUniqueIdObject(), System.nanoTime());
        }

        @Override
        public void executionSkipped(TestIdentifier test, String reason) {
            report(test, "skipped", reason);
        }

        @Override
        public void executionFinished(TestIdentifier test, TestExecutionResult result) {
            boolean passed = result.getStatus() == TestExecutionResult.Status.SUCCESSFUL;
            if (test.isTest() || !passed) {
                // An aborted test is one whose assumption does not hold.
                boolean aborted = result.getStatus() == TestExecutionResult.Status.ABORTED;
                String status = passed ? "passed" : aborted ? "skipped" : "failed";
                report(test, status, result.getThrowable().map(RunTests::describe).orElse(""));
            }
        }

        private void report(TestIdentifier test, String status, String message) {
            ObjectNode line = channel.newMessage();
            line.put("test", name(test));
            line.put("status", status);
            long started = startedAt.getOrDefault(test.getUniqueIdObject(), System.nanoTime());
            line.put("duration_s", (System.nanoTime() - started) / 1e9);
            line.put("message", message);
            channel.write(line);
        }
    }

    /** CLASS#METHOD(TYPES), with [N] for the Nth invocation of a template. */
    private static String name(TestIdentifier test) {
        TestSource source = test.getSource().orElse(null);
        String name = test.getDisplayName();
        if (source instanceof MethodSource method) {
            String types = method.getMethodParameterTypes();
            name = method.getClassName() + "#" + method.getMethodName() + "(" + types + ")";
        } else if (source instanceof ClassSource type) {
            name = type.getClassName();
        }
        UniqueId.Segment last = test.getUniqueIdObject().getLastSegment();
        boolean isInvocation = last.getType().equals("test-template-invocation");
        return isInvocation ? name + "[" + last.getValue().substring(1) + "]" : name;
    }

    /** The failure with its causes, and the first frame of each that belongs to a test. */
    private static String describe(Throwable failure) {
        StringBuilder text = new StringBuilder();
        for (Throwable cause = failure; cause != null && text.length() < MESSAGE_LENGTH_MAX; cause = cause.getCause()) {
            text.append(text.length() == 0 ? "" : "\n").append(cause);
            for (StackTraceElement frame : cause.getStackTrace()) {
                if (frame.getClassName().contains("Test")) {
                    text.append("\n    at ").append(frame);
                    break;
                }
            }
        }
        return text.substring(0, Math.min(text.length(), MESSAGE_LENGTH_MAX));
    }
}
