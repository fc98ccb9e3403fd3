// franz-go's producer over its quota, against a cluster whose bootstrap list is the argument. Writes the offsets of three
// records that were produced one after the other, and whether the client was throttled.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	topic    = "orders"
	patience = 30 * time.Second
)

type throttleHook struct{ count atomic.Int64 }

func (hook *throttleHook) OnBrokerThrottle(kgo.BrokerMetadata, time.Duration, bool) {
	hook.count.Add(1)
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := run(ctx, strings.Split(os.Args[1], ",")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, bootstrap []string) error {
	hook := &throttleHook{}
	producer, err := kgo.NewClient(kgo.SeedBrokers(bootstrap...), kgo.ClientID("shop"), kgo.DefaultProduceTopic(topic),
		kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.WithHooks(hook))
	if err != nil {
		return err
	}
	defer producer.Close()
	offsets := []int64{}
	for _, size := range []int{510_000, 500_000, 10} {
		record := kgo.SliceRecord(make([]byte, size))
		if err := producer.ProduceSync(ctx, record).FirstErr(); err != nil {
			return err
		}
		offsets = append(offsets, record.Offset)
	}
	fmt.Println("produced:", offsets, "throttled:", hook.count.Load() > 0)
	return nil
}
