// franz-go's producer and group consumer against a cluster with faults, whose bootstrap list is the argument. Writes the
// offsets of three records that were produced one after the other, and the values that a group has read.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	topic    = "orders"
	count    = 3
	patience = 30 * time.Second
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	bootstrap := kgo.SeedBrokers(strings.Split(os.Args[1], ",")...)
	if err := run(ctx, bootstrap); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, bootstrap kgo.Opt) error {
	backoff := kgo.RetryBackoffFn(func(int) time.Duration { return 20 * time.Millisecond })
	producer, err := kgo.NewClient(bootstrap, backoff, kgo.DefaultProduceTopic(topic), kgo.MetadataMinAge(20*time.Millisecond))
	if err != nil {
		return err
	}
	defer producer.Close()
	offsets := []int64{}
	for i := range count {
		record := kgo.StringRecord(fmt.Sprintf("v%d", i))
		if err := producer.ProduceSync(ctx, record).FirstErr(); err != nil {
			return err
		}
		offsets = append(offsets, record.Offset)
	}
	fmt.Println("produced:", offsets)
	consumer, err := kgo.NewClient(bootstrap, backoff, kgo.ConsumeTopics(topic), kgo.ConsumerGroup("g"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return err
	}
	defer consumer.Close()
	values := []string{}
	for len(values) < count {
		fetches := consumer.PollFetches(ctx)
		if ctx.Err() != nil {
			return fmt.Errorf("only %v: %w", values, ctx.Err())
		}
		for _, record := range fetches.Records() {
			values = append(values, string(record.Value))
		}
	}
	fmt.Println("consumed:", values)
	return nil
}
