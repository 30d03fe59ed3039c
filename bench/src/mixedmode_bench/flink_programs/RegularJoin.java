import java.nio.ByteBuffer;
import java.nio.file.Path;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.ListState;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.api.java.tuple.Tuple5;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.co.KeyedCoProcessFunction;
import org.apache.flink.util.Collector;

/**
 * Pairs of rows of two tables that have one int64 key, whenever they come: all rows are kept. Record: int64 key, int64
 * number, double. A row of the answer: the numbers of both, the key, the values of both.
 */
@SuppressWarnings("serial")
final class RegularJoin {
    private static final int ROW_BYTES = 40;
    private static final TypeInformation<Tuple3<Long, Long, Double>> RECORD =
            Types.TUPLE(Types.LONG, Types.LONG, Types.DOUBLE);

    private RegularJoin() {}

    static void build(StreamExecutionEnvironment env, Path input, Path output) {
        records(env, input.resolve("trades"))
                .connect(records(env, input.resolve("quotes")))
                .keyBy(left -> left.f0, right -> right.f0, Types.LONG)
                .process(new Pairs())
                .returns(Types.TUPLE(Types.LONG, Types.LONG, Types.LONG, Types.DOUBLE, Types.DOUBLE))
                .sinkTo(new Changelog<>(output, ROW_BYTES, RegularJoin::encode));
    }

    private static DataStream<Tuple3<Long, Long, Double>> records(StreamExecutionEnvironment env, Path folder) {
        return Blocks.in(folder, env, RegularJoin::decode, RECORD);
    }

    private static Tuple3<Long, Long, Double> decode(ByteBuffer from) {
        return Tuple3.of(from.getLong(), from.getLong(), from.getDouble());
    }

    private static byte[] encode(Tuple5<Long, Long, Long, Double, Double> row, ByteBuffer numbers) {
        numbers.putLong(row.f0).putLong(row.f1).putLong(row.f2).putDouble(row.f3).putDouble(row.f4);
        return null;
    }

    /** Appending to a list does not read it, so each row reads the other side of its key only. */
    private static final class Pairs
            extends KeyedCoProcessFunction<
                    Long,
                    Tuple3<Long, Long, Double>,
                    Tuple3<Long, Long, Double>,
                    Tuple5<Long, Long, Long, Double, Double>> {
        private transient ListState<Tuple3<Long, Long, Double>> lefts;
        private transient ListState<Tuple3<Long, Long, Double>> rights;

        @Override
        public void open(OpenContext context) {
            lefts = getRuntimeContext().getListState(new ListStateDescriptor<>("lefts", RECORD));
            rights = getRuntimeContext().getListState(new ListStateDescriptor<>("rights", RECORD));
        }

        @Override
        public void processElement1(
                Tuple3<Long, Long, Double> left, Context context, Collector<Tuple5<Long, Long, Long, Double, Double>> out)
                throws Exception {
            lefts.add(left);
            for (Tuple3<Long, Long, Double> right : rights.get()) {
                out.collect(Tuple5.of(left.f1, right.f1, left.f0, left.f2, right.f2));
            }
        }

        @Override
        public void processElement2(
                Tuple3<Long, Long, Double> right,
                Context context,
                Collector<Tuple5<Long, Long, Long, Double, Double>> out)
                throws Exception {
            rights.add(right);
            for (Tuple3<Long, Long, Double> left : lefts.get()) {
                out.collect(Tuple5.of(left.f1, right.f1, left.f0, left.f2, right.f2));
            }
        }
    }
}
