// Reads record batches, one log in hex per line, and prints for each line what Kafka's own reader says of them.

import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HexFormat;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.Utils;

public class ReadBatches {
    public static void main(String[] arguments) throws Exception {
        for (String line : Files.readAllLines(Path.of(arguments[0]))) {
            StringBuilder said = new StringBuilder();
            for (RecordBatch batch : MemoryRecords.readableRecords(ByteBuffer.wrap(HexFormat.of().parseHex(line))).batches()) {
                batch.ensureValid();
                said.append(String.format("[%d %s %d-%d %s %d %d/%d/%d %b %b %d]", batch.magic(), batch.compressionType().name,
                    batch.baseOffset(), batch.lastOffset(), batch.timestampType(), batch.maxTimestamp(), batch.producerId(),
                    batch.producerEpoch(), batch.baseSequence(), batch.isTransactional(), batch.isControlBatch(),
                    batch.partitionLeaderEpoch()));
                for (Record record : batch) {
                    record.ensureValid();
                    said.append(String.format(" %d@%d %s=%s", record.offset(), record.timestamp(), hex(record.key()), hex(record.value())));
                    for (Header header : record.headers()) {
                        said.append(String.format(" %s:%s", header.key(), header.value() == null ? "null" : HexFormat.of().formatHex(header.value())));
                    }
                }
            }
            System.out.println(said);
        }
    }

    private static String hex(ByteBuffer bytes) {
        return bytes == null ? "null" : HexFormat.of().formatHex(Utils.toArray(bytes));
    }
}
