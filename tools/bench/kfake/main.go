// A stand-alone kfake on loopback, to measure beside: prints the bootstrap list, ends on a signal.
package main

import (
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/twmb/franz-go/pkg/kfake"
)

func main() {
	brokers := flag.Int("brokers", 1, "how many brokers")
	data := flag.String("data", "", "folder for its data; none without")
	sync := flag.Bool("sync", false, "sync each batch to the disk")
	flag.Parse()
	options := []kfake.Opt{
		kfake.NumBrokers(*brokers),
		kfake.AllowAutoTopicCreation(),
		kfake.ListenFn(func(network, address string) (net.Listener, error) {
			return net.Listen("tcp", "127.0.0.1:0")
		}),
	}
	if *data != "" {
		options = append(options, kfake.DataDir(*data))
	}
	if *sync {
		options = append(options, kfake.SyncWrites())
	}
	cluster, err := kfake.NewCluster(options...)
	if err != nil {
		panic(err)
	}
	fmt.Println(strings.Join(cluster.ListenAddrs(), ","))
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, os.Interrupt, syscall.SIGTERM)
	<-ended
	cluster.Close()
}
