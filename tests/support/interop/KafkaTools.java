/** Kafka's own command line tools in one JVM: a JSON array of class and arguments per line, a JSON answer each. */

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import org.apache.kafka.common.utils.Exit;

public class KafkaTools {
    static final ObjectMapper JSON = new ObjectMapper();

    static class Left extends Error {
        Left() {
            super("the tool has ended", null, false, false);
        }
    }

    public static void main(String[] none) throws Exception {
        PrintStream answers = new PrintStream(System.out, true, "UTF-8");
        PrintStream complaints = System.err;
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        Integer[] code = {null};
        // Some tools catch everything and leave once more: the first word counts.
        Exit.setExitProcedure((status, message) -> {
            code[0] = code[0] == null ? status : code[0];
            throw new Left();
        });
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            JsonNode words = JSON.readTree(line);
            String[] arguments = new String[words.size() - 1];
            for (int i = 0; i < arguments.length; i++) {
                arguments[i] = words.get(i + 1).asText();
            }
            ByteArrayOutputStream said = new ByteArrayOutputStream();
            PrintStream capture = new PrintStream(said, true, "UTF-8");
            System.setOut(capture);
            System.setErr(capture);
            code[0] = null;
            try {
                Class.forName(words.get(0).asText())
                    .getMethod("main", String[].class).invoke(null, (Object) arguments);
            } catch (InvocationTargetException error) {
                if (!(error.getCause() instanceof Left)) {
                    error.getCause().printStackTrace(capture);
                    code[0] = -1;
                }
            }
            System.setErr(complaints);
            ObjectNode answer = JSON.createObjectNode();
            answer.put("code", code[0] == null ? 0 : code[0]);
            answer.put("said", said.toString("UTF-8"));
            answers.println(JSON.writeValueAsString(answer));
        }
    }
}
