import java.io.BufferedOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.io.Serializable;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.flink.api.connector.sink2.Sink;
import org.apache.flink.api.connector.sink2.SinkWriter;
import org.apache.flink.api.connector.sink2.WriterInitContext;

/**
 * Writes all rows that it is given, in their order, to two files per subtask: the newest row of a key is the one that
 * counts, and a key is always in the same subtask.
 *
 * <pre>
 * rows-N:   row*      of a fixed size, as the encoder knows them; little-endian
 * texts-N:  bytes*    the texts of the rows one after the other; a row holds the length of its own
 * </pre>
 */
@SuppressWarnings("serial")
final class Changelog<T> implements Sink<T> {
    /** Puts the row's numbers to one buffer, which has room for them; gives its text, or null. */
    interface Encoder<T> extends Serializable {
        byte[] encode(T row, ByteBuffer numbers);
    }

    private static final int BUFFER_BYTES = 1 << 18;

    private final String folder;
    private final int rowBytes;
    private final Encoder<T> encoder;

    Changelog(Path folder, int rowBytes, Encoder<T> encoder) {
        this.folder = folder.toString();
        this.rowBytes = rowBytes;
        this.encoder = encoder;
    }

    @Override
    public SinkWriter<T> createWriter(WriterInitContext context) throws IOException {
        return new Writer(context.getTaskInfo().getIndexOfThisSubtask());
    }

    private final class Writer implements SinkWriter<T> {
        private final OutputStream rows;
        private final OutputStream texts;
        private final byte[] row = new byte[rowBytes];
        private final ByteBuffer numbers = ByteBuffer.wrap(row).order(ByteOrder.LITTLE_ENDIAN);

        Writer(int subtask) throws IOException {
            rows = create("rows-" + subtask);
            texts = create("texts-" + subtask);
        }

        private OutputStream create(String name) throws IOException {
            return new BufferedOutputStream(Files.newOutputStream(Path.of(folder, name)), BUFFER_BYTES);
        }

        @Override
        public void write(T given, Context context) throws IOException {
            numbers.clear();
            byte[] text = encoder.encode(given, numbers);
            rows.write(row);
            if (text != null) {
                texts.write(text);
            }
        }

        @Override
        public void flush(boolean isEndOfInput) throws IOException {
            rows.flush();
            texts.flush();
        }

        @Override
        public void close() throws IOException {
            rows.close();
            texts.close();
        }
    }
}
