/** Reads `class version hex` per line with Kafka's generated class, and answers what that class writes, in hex. */

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.util.HexFormat;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.protocol.Readable;

public class RecordOracle {
    static final String[] PACKAGES = {
        "org.apache.kafka.common.metadata.",
        "org.apache.kafka.common.message.",
        "org.apache.kafka.coordinator.group.generated.",
        "org.apache.kafka.coordinator.transaction.generated.",
        "org.apache.kafka.coordinator.share.generated.",
        "org.apache.kafka.server.log.remote.metadata.storage.generated.",
        "org.apache.kafka.storage.internals.log.generated.",
        "org.apache.kafka.raft.generated.",
    };

    static Class<?> find(String name) {
        for (String each : PACKAGES) {
            try {
                return Class.forName(each + name);
            } catch (ClassNotFoundException next) {
                continue;
            }
        }
        return null;
    }

    public static void main(String[] none) throws Exception {
        PrintStream out = new PrintStream(System.out, true, "UTF-8");
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ", -1);
            Class<?> kind = find(words[0]);
            if (kind == null) {
                out.println("unknown");
                continue;
            }
            short version = Short.parseShort(words[1]);
            try {
                ByteBuffer data = ByteBuffer.wrap(HexFormat.of().parseHex(words[2]));
                Message message = (Message) kind.getConstructor(Readable.class, short.class)
                    .newInstance(new ByteBufferAccessor(data), version);
                ByteBuffer written = MessageUtil.toByteBufferAccessor(message, version).buffer();
                byte[] bytes = new byte[written.remaining()];
                written.get(bytes);
                out.println((data.hasRemaining() ? "left " : "ok ") + HexFormat.of().formatHex(bytes));
            } catch (ReflectiveOperationException | RuntimeException error) {
                out.println("failed " + (error.getCause() == null ? error : error.getCause()));
            }
        }
    }
}
