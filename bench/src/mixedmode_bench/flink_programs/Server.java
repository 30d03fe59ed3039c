import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.runtime.minicluster.MiniCluster;
import org.apache.flink.runtime.minicluster.MiniClusterConfiguration;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/**
 * A Flink cluster in one JVM that stays warm, and takes jobs from standard input.
 *
 * <p>Arguments: the number of slots, then settings of Flink as key=value. A line of the input is PROGRAM, INPUT and
 * OUTPUT, separated by tabs; the answer is a line "done", or "failed" and why. It ends when the input does, so it never
 * outlives who started it.
 */
public final class Server {
    private Server() {}

    /** A program: adds its steps to the environment; reads the files in one folder, writes to another. */
    private interface Program {
        void build(StreamExecutionEnvironment env, Path input, Path output) throws Exception;
    }

    public static void main(String[] args) throws Exception {
        PrintStream answers = System.out;
        System.setOut(System.err); // nothing else may write where the answers go
        int slots = Integer.parseInt(args[0]);
        Configuration settings = new Configuration();
        for (int i = 1; i < args.length; i++) {
            String[] setting = args[i].split("=", 2);
            settings.setString(setting[0], setting[1]);
        }
        MiniClusterConfiguration one =
                new MiniClusterConfiguration.Builder()
                        .setConfiguration(settings)
                        .setNumTaskManagers(1)
                        .setNumSlotsPerTaskManager(slots)
                        .withRandomPorts()
                        .build();
        try (MiniCluster cluster = new MiniCluster(one)) {
            cluster.start();
            BufferedReader orders = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
            answers.println("ready");
            for (String order = orders.readLine(); order != null; order = orders.readLine()) {
                answers.println(obey(order.split("\t"), cluster, settings, slots));
            }
        }
        System.exit(0); // threads of Flink may linger
    }

    private static String obey(String[] order, MiniCluster cluster, Configuration settings, int slots) {
        if (order[0].equals("free-memory")) {
            System.gc();
            return "done";
        }
        try {
            StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment(settings);
            env.setParallelism(slots);
            program(order[0]).build(env, Path.of(order[1]), Path.of(order[2]));
            cluster.executeJobBlocking(env.getStreamGraph().getJobGraph());
            return "done";
        } catch (Exception e) {
            e.printStackTrace();
            Throwable cause = e;
            while (cause.getCause() != null) {
                cause = cause.getCause();
            }
            return "failed " + cause.toString().replace('\n', ' ');
        }
    }

    private static Program program(String name) {
        switch (name) {
            case "count-sum":
                return CountSum::build;
            case "regular-join":
                return RegularJoin::build;
            case "word-count":
                return WordCount::build;
            default:
                throw new IllegalArgumentException("no such program: " + name);
        }
    }
}
