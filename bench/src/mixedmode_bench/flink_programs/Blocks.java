import java.io.BufferedInputStream;
import java.io.DataInputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.Serializable;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.file.src.FileSource;
import org.apache.flink.connector.file.src.FileSourceSplit;
import org.apache.flink.connector.file.src.reader.BulkFormat;
import org.apache.flink.connector.file.src.util.MutableRecordAndPosition;
import org.apache.flink.connector.file.src.util.RecordAndPosition;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/**
 * Files of flat binary records, read by Flink's own file source, a file being a split.
 *
 * <pre>
 * file:   block*
 * block:  int32 bytes | int32 records | the records, as the decoder knows them       all little-endian
 * </pre>
 *
 * A block is read at once, by the source's fetcher; its records are made one by one in the task that asks for them.
 */
@SuppressWarnings("serial")
final class Blocks<T> implements BulkFormat<T, FileSourceSplit> {
    /** Takes one record off the buffer. */
    interface Decoder<T> extends Serializable {
        T next(ByteBuffer from);
    }

    private static final int BUFFER_BYTES = 1 << 20;

    private final Decoder<T> decoder;
    private final TypeInformation<T> type;

    private Blocks(Decoder<T> decoder, TypeInformation<T> type) {
        this.decoder = decoder;
        this.type = type;
    }

    /** The records of all files in a folder. */
    static <T> DataStream<T> in(
            Path folder, StreamExecutionEnvironment env, Decoder<T> decoder, TypeInformation<T> type) {
        org.apache.flink.core.fs.Path path = new org.apache.flink.core.fs.Path(folder.toUri());
        FileSource<T> source = FileSource.forBulkFileFormat(new Blocks<>(decoder, type), path).build();
        return env.fromSource(source, WatermarkStrategy.noWatermarks(), "records", type);
    }

    @Override
    public Reader<T> createReader(Configuration settings, FileSourceSplit split) throws IOException {
        return new BlockReader<>(Path.of(split.path().toUri()), decoder);
    }

    @Override
    public Reader<T> restoreReader(Configuration settings, FileSourceSplit split) {
        throw new UnsupportedOperationException("a benchmark's run is never resumed");
    }

    @Override
    public boolean isSplittable() {
        return false;
    }

    @Override
    public TypeInformation<T> getProducedType() {
        return type;
    }

    private static final class BlockReader<T> implements Reader<T> {
        private final DataInputStream file;
        private final Decoder<T> decoder;

        BlockReader(Path path, Decoder<T> decoder) throws IOException {
            this.file = new DataInputStream(new BufferedInputStream(Files.newInputStream(path), BUFFER_BYTES));
            this.decoder = decoder;
        }

        @Override
        public RecordIterator<T> readBatch() throws IOException {
            int bytes;
            try {
                bytes = Integer.reverseBytes(file.readInt());
            } catch (EOFException end) {
                return null;
            }
            int records = Integer.reverseBytes(file.readInt());
            byte[] block = new byte[bytes];
            file.readFully(block);
            return new Block<>(ByteBuffer.wrap(block).order(ByteOrder.LITTLE_ENDIAN), records, decoder);
        }

        @Override
        public void close() throws IOException {
            file.close();
        }
    }

    private static final class Block<T> implements RecordIterator<T> {
        private final ByteBuffer bytes;
        private final Decoder<T> decoder;
        private final MutableRecordAndPosition<T> current = new MutableRecordAndPosition<>();
        private int left;

        Block(ByteBuffer bytes, int records, Decoder<T> decoder) {
            this.bytes = bytes;
            this.left = records;
            this.decoder = decoder;
        }

        @Override
        public RecordAndPosition<T> next() {
            if (left == 0) {
                return null;
            }
            left--;
            current.setNext(decoder.next(bytes));
            return current;
        }

        @Override
        public void releaseBatch() {}
    }
}
