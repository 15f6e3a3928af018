// Key_Shared with the client's default batching and acknowledgement: see ../test_mixed_batches.py.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
	plog "github.com/apache/pulsar-client-go/pulsar/log"
	"github.com/sirupsen/logrus"
)

const keys, each = 50, 40

func must(err error) {
	if err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
}

func main() {
	quiet := logrus.New()
	quiet.SetLevel(logrus.ErrorLevel)
	client, err := pulsar.NewClient(pulsar.ClientOptions{URL: os.Args[1], Logger: plog.NewLoggerWithLogrus(quiet)})
	must(err)
	defer client.Close()
	topic := os.Args[2]

	var lock sync.Mutex
	next := map[string]int{}
	wrong := 0
	received := 0
	work := func(consumer pulsar.Consumer, most int) {
		for n := 0; most == 0 || n < most; n++ {
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
			message, err := consumer.Receive(ctx)
			cancel()
			if err != nil {
				break
			}
			number, _ := strconv.Atoi(string(message.Payload()))
			lock.Lock()
			if number > next[message.Key()] {
				wrong++
			}
			if number == next[message.Key()] {
				next[message.Key()]++
				received++
			}
			lock.Unlock()
			must(consumer.Ack(message))
		}
		consumer.Close()
	}
	subscribe := func() pulsar.Consumer {
		consumer, err := client.Subscribe(pulsar.ConsumerOptions{Topic: topic, SubscriptionName: "s", Type: pulsar.KeyShared,
			SubscriptionInitialPosition: pulsar.SubscriptionPositionEarliest})
		must(err)
		return consumer
	}
	var workers sync.WaitGroup
	start := func(most int) {
		consumer := subscribe()
		workers.Add(1)
		go func() { defer workers.Done(); work(consumer, most) }()
	}
	start(0)
	start(0)
	start(100) // leaves in the middle

	producer, err := client.CreateProducer(pulsar.ProducerOptions{Topic: topic, BatcherBuilderType: pulsar.DefaultBatchBuilder})
	must(err)
	for n := 0; n < each; n++ {
		if n == each/2 {
			start(0) // comes in the middle
		}
		for key := 0; key < keys; key++ {
			producer.SendAsync(context.Background(), &pulsar.ProducerMessage{Key: fmt.Sprint("key-", key), Payload: []byte(strconv.Itoa(n))},
				func(_ pulsar.MessageID, _ *pulsar.ProducerMessage, err error) { must(err) })
		}
	}
	must(producer.FlushWithCtx(context.Background()))
	workers.Wait()
	fmt.Printf("received %d of %d, %d out of order\n", received, keys*each, wrong)
	if received != keys*each || wrong != 0 {
		os.Exit(1)
	}
}
