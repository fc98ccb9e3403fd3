// Command driver runs franz-go for `mockbroker certify`: requests of the driver protocol on stdin, answers on stdout.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime/debug"
	"time"
)

const (
	protocol     = 1
	lineBytesMax = 1 << 20
)

var capabilities = []string{
	"producer", "producer.idempotence", "producer.transactions",
	"consumer.assign", "consumer.classic", "consumer.classic.cooperative", "consumer.classic.static",
	"consumer.kip848", "consumer.kip848.regex", "consumer.pattern", "consumer.rebalance_events", "consumer.wakeup",
	"consumer.seek", "consumer.pause", "consumer.offsets",
	"share", "share.explicit", "share.commit", "share.renew", "share.delivery_count", "share.wakeup",
	"admin.topics", "admin.cluster", "admin.offsets",
	"sasl.plain", "sasl.scram", "tls",
	"compression.gzip", "compression.snappy", "compression.lz4", "compression.zstd",
}

type object = map[string]any

type request struct {
	ID     int64  `json:"id"`
	Method string `json:"method"`
	Params params `json:"params"`
}

// params has the parameters of all methods.
type params struct {
	Protocol      int                        `json:"protocol"`
	Client        string                     `json:"client"`
	Kind          string                     `json:"kind"`
	Settings      map[string]json.RawMessage `json:"settings"`
	TimeoutMs     *int64                     `json:"timeout_ms"`
	Topic         string                     `json:"topic"`
	Partition     *int32                     `json:"partition"`
	Offset        int64                      `json:"offset"`
	Records       []record                   `json:"records"`
	Topics        json.RawMessage            `json:"topics"`
	Pattern       *string                    `json:"pattern"`
	Partitions    []place                    `json:"partitions"`
	Offsets       []place                    `json:"offsets"`
	MaxRecords    *int                       `json:"max_records"`
	WakeupAfterMs *int64                     `json:"wakeup_after_ms"`
}

// record is one to send, or the acknowledgement of one.
type record struct {
	Key       *string      `json:"key"`
	Value     *string      `json:"value"`
	Headers   [][2]*string `json:"headers"`
	Timestamp *int64       `json:"timestamp"`
	Topic     string       `json:"topic"`
	Partition *int32       `json:"partition"`
	Offset    int64        `json:"offset"`
	Type      string       `json:"type"`
}

// place is a partition with what a method says about it: offset is a number, "earliest" or "latest".
type place struct {
	Topic     string          `json:"topic"`
	Partition int32           `json:"partition"`
	Offset    json.RawMessage `json:"offset"`
	Spec      json.RawMessage `json:"spec"`
}

func (p *params) timeout() time.Duration {
	if p.TimeoutMs == nil {
		return 10 * time.Second
	}
	return time.Duration(*p.TimeoutMs) * time.Millisecond
}

// client is one of the kinds of clients. close is called once, as the last method.
type client interface {
	call(ctx context.Context, method string, p *params) (any, error)
	close(ctx context.Context) (any, error)
}

func main() {
	clients := map[string]client{}
	requests := bufio.NewScanner(os.Stdin)
	requests.Buffer(nil, lineBytesMax+1)
	answers := json.NewEncoder(os.Stdout)
	answers.SetEscapeHTML(false)
	for requests.Scan() {
		var req request
		if err := json.Unmarshal(requests.Bytes(), &req); err != nil {
			fmt.Fprintf(os.Stderr, "wrong request: %v\n", err)
			os.Exit(1)
		}
		answer := object{"id": req.ID}
		if result, err := serve(clients, req.Method, &req.Params); err != nil {
			answer["error"] = describe(err)
		} else {
			answer["result"] = result
		}
		if err := answers.Encode(answer); err != nil {
			os.Exit(1)
		}
	}
}

func serve(clients map[string]client, method string, p *params) (any, error) {
	ctx, cancel := context.WithTimeout(context.Background(), p.timeout())
	defer cancel()
	switch method {
	case "hello":
		return hello(p)
	case "open":
		return object{}, open(clients, p)
	}
	c, ok := clients[p.Client]
	switch {
	case p.Client == "":
		return nil, unsupported("method " + method)
	case !ok:
		return nil, illegalState(fmt.Sprintf("no client %q is open", p.Client))
	case method == "close":
		delete(clients, p.Client)
		return c.close(ctx)
	}
	return c.call(ctx, method, p)
}

func hello(p *params) (any, error) {
	if p.Protocol != protocol {
		return nil, unsupported(fmt.Sprintf("version %d of the protocol; this driver speaks %d", p.Protocol, protocol))
	}
	version := "unknown"
	if build, ok := debug.ReadBuildInfo(); ok {
		for _, module := range build.Deps {
			if module.Path == "github.com/twmb/franz-go" {
				version = module.Version[1:]
			}
		}
	}
	return object{
		"protocol": protocol, "name": "franz-go", "version": version, "language": "Go",
		"capabilities": capabilities, "settings": settingNames(),
	}, nil
}

func open(clients map[string]client, p *params) error {
	if _, ok := clients[p.Client]; ok {
		return illegalState(fmt.Sprintf("a client %q is open", p.Client))
	}
	opts, values, err := translate(p.Kind, p.Settings)
	if err != nil {
		return err
	}
	var c client
	switch p.Kind {
	case "producer":
		c, err = newProducer(opts)
	case "consumer", "share_consumer":
		c, err = newConsumer(opts, values, p.Kind == "share_consumer")
	case "admin":
		c, err = newAdmin(opts)
	default:
		err = unsupported("a client of kind " + p.Kind)
	}
	if err == nil {
		clients[p.Client] = c
	}
	return err
}

// closing runs a function of the client that takes no context, within the time of the call.
func closing(ctx context.Context, closeClient func()) error {
	done := make(chan struct{})
	go func() {
		defer close(done)
		closeClient()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("close: %w", ctx.Err())
	}
}
