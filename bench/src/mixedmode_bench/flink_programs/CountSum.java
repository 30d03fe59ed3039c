import java.nio.ByteBuffer;
import java.nio.file.Path;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/** count(*) and sum(double) per int64 key, by keyBy and reduce, as in FLIP-327's benchmark. Record: int64, double. */
final class CountSum {
    private static final int ROW_BYTES = 24; // key, count, sum

    private CountSum() {}

    static void build(StreamExecutionEnvironment env, Path input, Path output) {
        TypeInformation<Tuple3<Long, Long, Double>> type = Types.TUPLE(Types.LONG, Types.LONG, Types.DOUBLE);
        Blocks.in(input, env, CountSum::decode, type)
                .keyBy(event -> event.f0, Types.LONG)
                .reduce((a, b) -> Tuple3.of(a.f0, a.f1 + b.f1, a.f2 + b.f2))
                .sinkTo(new Changelog<>(output, ROW_BYTES, CountSum::encode));
    }

    private static Tuple3<Long, Long, Double> decode(ByteBuffer from) {
        return Tuple3.of(from.getLong(), 1L, from.getDouble());
    }

    private static byte[] encode(Tuple3<Long, Long, Double> row, ByteBuffer numbers) {
        numbers.putLong(row.f0).putLong(row.f1).putDouble(row.f2);
        return null;
    }
}
