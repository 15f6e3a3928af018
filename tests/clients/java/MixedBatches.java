// Key_Shared with the client's default batching and acknowledgement: see ../test_mixed_batches.py.
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.Schema;
import org.apache.pulsar.client.api.SubscriptionInitialPosition;
import org.apache.pulsar.client.api.SubscriptionType;

public class MixedBatches {
    static final int KEYS = 50, EACH = 40;
    static final Map<String, Integer> next = new HashMap<>();
    static int received, wrong;

    static synchronized void note(Message<String> message) {
        int number = Integer.parseInt(message.getValue());
        int expected = next.getOrDefault(message.getKey(), 0);
        if (number > expected) {
            wrong++;
        }
        if (number == expected) {
            next.put(message.getKey(), expected + 1);
            received++;
        }
    }

    static void work(Consumer<String> consumer, int most) {
        try {
            for (int n = 0; most == 0 || n < most; n++) {
                Message<String> message = consumer.receive(2, TimeUnit.SECONDS);
                if (message == null) {
                    break;
                }
                note(message);
                consumer.acknowledge(message);
            }
            consumer.close();
        } catch (Exception e) {
            e.printStackTrace();
            System.exit(1);
        }
    }

    public static void main(String[] args) throws Exception {
        boolean byIndex = args[2].equals("index-ack");
        PulsarClient client = PulsarClient.builder().serviceUrl(args[0]).build();
        List<Thread> workers = new ArrayList<>();
        int[] limits = {0, 0, 100, 0};
        Producer<String> producer = client.newProducer(Schema.STRING).topic(args[1]).blockIfQueueFull(true).create();
        for (int i = 0; i < 4; i++) {
            if (i == 3) {   // three are there at once, one of them leaves in the middle; the fourth comes in the middle
                send(producer, 0, EACH / 2);
            }
            Consumer<String> consumer = client.newConsumer(Schema.STRING).topic(args[1]).subscriptionName("s")
                    .subscriptionType(SubscriptionType.Key_Shared).enableBatchIndexAcknowledgment(byIndex)
                    .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest).subscribe();
            int most = limits[i];
            Thread thread = new Thread(() -> work(consumer, most));
            thread.start();
            workers.add(thread);
        }
        send(producer, EACH / 2, EACH);
        for (Thread worker : workers) {
            worker.join();
        }
        client.close();
        System.out.printf("received %d of %d, %d out of order%n", received, KEYS * EACH, wrong);
        System.exit(received == KEYS * EACH && wrong == 0 ? 0 : 1);
    }

    static void send(Producer<String> producer, int from, int to) throws Exception {
        for (int n = from; n < to; n++) {
            for (int key = 0; key < KEYS; key++) {
                producer.newMessage().key("key-" + key).value(String.valueOf(n)).sendAsync();
            }
        }
        producer.flush();
    }
}
