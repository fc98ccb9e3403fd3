// Command driver runs sarama for `mockbroker certify`: requests of the driver protocol on stdin, answers on stdout.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"runtime/debug"
	"time"

	"github.com/IBM/sarama"
)

const (
	protocol     = 1
	lineBytesMax = 1 << 20
)

var capabilities = []string{
	"producer", "producer.idempotence", "producer.transactions",
	"consumer.assign", "consumer.classic", "consumer.classic.cooperative", "consumer.classic.static",
	"consumer.rebalance_events", "consumer.pause",
	"admin.topics", "admin.offsets",
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
	Consumer      string                     `json:"consumer"`
	Kind          string                     `json:"kind"`
	Settings      map[string]json.RawMessage `json:"settings"`
	TimeoutMs     *int64                     `json:"timeout_ms"`
	Topic         string                     `json:"topic"`
	Partition     *int32                     `json:"partition"`
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

// client is one of the kinds of clients. Its methods wait; the driver limits the time. close is called once, as the last method.
type client interface {
	call(method string, p *params) (any, error)
	close() (any, error)
}

// clients are those that are open, by name.
var clients = map[string]client{}

func main() {
	sarama.Logger = log.New(os.Stderr, "", log.Ltime|log.Lmicroseconds)
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
		if result, err := serve(req.Method, &req.Params); err != nil {
			answer["error"] = describe(err)
		} else {
			answer["result"] = result
		}
		if err := answers.Encode(answer); err != nil {
			os.Exit(1)
		}
	}
}

func serve(method string, p *params) (any, error) {
	switch method {
	case "hello":
		return hello(p)
	case "open":
		return object{}, open(p)
	}
	c, ok := clients[p.Client]
	switch {
	case p.Client == "":
		return nil, unsupported("method " + method)
	case !ok:
		return nil, illegalState(fmt.Sprintf("no client %q is open", p.Client))
	case method == "close":
		delete(clients, p.Client)
		return withinTime(p.timeout(), c.close)
	}
	// A call ends a little before its own limit if it has one.
	return withinTime(p.timeout()+500*time.Millisecond, func() (any, error) { return c.call(method, p) })
}

func hello(p *params) (any, error) {
	if p.Protocol != protocol {
		return nil, unsupported(fmt.Sprintf("version %d of the protocol; this driver speaks %d", p.Protocol, protocol))
	}
	version := "unknown"
	if build, ok := debug.ReadBuildInfo(); ok {
		for _, module := range build.Deps {
			if module.Path == "github.com/IBM/sarama" {
				version = module.Version[1:]
			}
		}
	}
	return object{
		"protocol": protocol, "name": "sarama", "version": version, "language": "Go",
		"capabilities": capabilities, "settings": settingNames(),
	}, nil
}

func open(p *params) error {
	if _, ok := clients[p.Client]; ok {
		return illegalState(fmt.Sprintf("a client %q is open", p.Client))
	}
	config, v, err := translate(p.Kind, p.Settings)
	if err != nil {
		return err
	}
	if err := config.Validate(); err != nil {
		return illegalState(err.Error())
	}
	var c client
	switch p.Kind {
	case "producer":
		c = &producer{config: config, seeds: v.seeds}
	case "consumer":
		c = newConsumer(config, v)
	case "admin":
		c = &admin{config: config, seeds: v.seeds}
	default:
		return unsupported("a client of kind " + p.Kind)
	}
	clients[p.Client] = c
	return nil
}

// withinTime calls a function of the client, which has no time limits; it goes on behind the driver when it is late.
func withinTime(limit time.Duration, call func() (any, error)) (any, error) {
	type outcome struct {
		result any
		err    error
	}
	done := make(chan outcome, 1)
	go func() {
		result, err := call()
		done <- outcome{result, err}
	}()
	select {
	case found := <-done:
		return found.result, found.err
	case <-time.After(limit):
		return nil, &localError{"LOCAL_TIMEOUT", fmt.Sprintf("not done within %v", limit)}
	}
}
