import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs command-line tools one after another in one virtual machine, which starts once. A line of input has, separated by
 * tabs, the standard input of the tool with U+0001 for a line end, its class and its arguments. The output of the tool
 * is followed by a line with a NUL and its exit code.
 */
public class ToolShell {
    /** Thrown when a tool ends the process. */
    private static class Exited extends RuntimeException {
        final int code;

        Exited(int code) {
            super(null, null, false, false);
            this.code = code;
        }
    }

    public static void main(String[] arguments) throws Exception {
        Exit.setExitProcedure((code, message) -> {
            throw new Exited(code);
        });
        Exit.setHaltProcedure((code, message) -> {
            throw new Exited(code);
        });
        PrintStream out = System.out;
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] fields = line.split("\t");
            ByteArrayOutputStream written = new ByteArrayOutputStream();
            System.setIn(new ByteArrayInputStream(fields[0].replace('\1', '\n').getBytes(StandardCharsets.UTF_8)));
            System.setOut(new PrintStream(written, true, StandardCharsets.UTF_8));
            int code = run(fields[1], Arrays.copyOfRange(fields, 2, fields.length));
            System.out.flush();
            out.write(written.toByteArray());
            out.println();
            out.println("\0" + code);
            out.flush();
        }
    }

    private static int run(String tool, String[] arguments) throws Exception {
        try {
            Class.forName(tool).getMethod("main", String[].class).invoke(null, (Object) arguments);
            return 0;
        } catch (InvocationTargetException failure) {
            if (failure.getCause() instanceof Exited) {
                return ((Exited) failure.getCause()).code;
            }
            failure.getCause().printStackTrace(System.out);
            return 1;
        }
    }
}
