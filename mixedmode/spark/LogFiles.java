package mixedmode;

import java.io.IOException;
import java.net.URI;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager;

/** Writes the log of a streaming query as Spark does, but starts no process for a file on a local disk: log_files.py. */
public class LogFiles extends FileSystemBasedCheckpointFileManager {
    private final FileSystem files;

    public LogFiles(Path path, Configuration configuration) throws IOException {
        super(path, configuration);
        this.files = super.fs() instanceof LocalFileSystem ? withUmask(configuration) : super.fs();
    }

    /** Returns the files that all methods of the base class use. */
    @Override
    public FileSystem fs() {
        return this.files;
    }

    /** Returns local files with checksums beside them. The umask of this process alone decides who may read them. */
    private static FileSystem withUmask(Configuration configuration) throws IOException {
        FileSystem files = new LocalFileSystem(new RawLocalFileSystem() {
            @Override
            public void setPermission(Path path, FsPermission permission) {}
        });
        files.initialize(URI.create("file:///"), configuration);
        return files;
    }
}
