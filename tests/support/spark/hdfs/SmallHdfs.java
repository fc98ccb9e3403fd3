import java.io.File;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.MiniDFSCluster;

/** A real HDFS of one name node and one data node on loopback, until its standard input ends. Prints its address. */
public class SmallHdfs {
    public static void main(String[] args) throws Exception {
        try (MiniDFSCluster cluster = new MiniDFSCluster.Builder(new Configuration(), new File(args[0])).build()) {
            cluster.waitActive();
            System.out.println(cluster.getURI());
            while (System.in.read() >= 0) {
                // Nothing is said to it.
            }
        }
        System.exit(0);
    }
}
