import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/** count(*) per word, by keyBy and reduce, as in FLIP-140's benchmark. Record: int32 length, the word as UTF-8. */
final class WordCount {
    private static final int ROW_BYTES = 12; // length of the word, count

    private WordCount() {}

    static void build(StreamExecutionEnvironment env, Path input, Path output) {
        TypeInformation<Tuple2<String, Long>> type = Types.TUPLE(Types.STRING, Types.LONG);
        Blocks.in(input, env, WordCount::decode, type)
                .keyBy(counted -> counted.f0, Types.STRING)
                .reduce((a, b) -> Tuple2.of(a.f0, a.f1 + b.f1))
                .sinkTo(new Changelog<>(output, ROW_BYTES, WordCount::encode));
    }

    private static Tuple2<String, Long> decode(ByteBuffer from) {
        int bytes = from.getInt();
        String word = new String(from.array(), from.position(), bytes, StandardCharsets.UTF_8);
        from.position(from.position() + bytes);
        return Tuple2.of(word, 1L);
    }

    private static byte[] encode(Tuple2<String, Long> row, ByteBuffer numbers) {
        byte[] word = row.f0.getBytes(StandardCharsets.UTF_8);
        numbers.putInt(word.length).putLong(row.f1);
        return word;
    }
}
