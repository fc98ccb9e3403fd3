package main

import (
	"context"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

type admin struct{ client *kadm.Client }

func newAdmin(opts []kgo.Opt) (client, error) {
	created, err := kadm.NewOptClient(opts...)
	if err != nil {
		return nil, illegalState(err.Error())
	}
	return &admin{created}, nil
}

func (a *admin) close(ctx context.Context) (any, error) {
	return object{}, closing(ctx, a.client.Close)
}

func (a *admin) call(ctx context.Context, method string, p *params) (any, error) {
	switch method {
	case "create_topics", "create_partitions":
		return object{}, a.create(ctx, method, p)
	case "delete_topics":
		topics, err := read[[]string](p.Topics)
		if err != nil {
			return nil, illegalState(err.Error())
		}
		responses, err := a.client.DeleteTopics(ctx, topics...)
		if err == nil {
			err = responses.Error()
		}
		return object{}, err
	case "list_topics":
		topics, err := a.client.ListTopics(ctx)
		if err != nil {
			return nil, err
		}
		return object{"topics": topics.Names()}, nil
	case "describe_cluster":
		return a.describeCluster(ctx)
	case "list_offsets":
		return a.listOffsets(ctx, p)
	}
	return nil, unsupported("method " + method + " of an admin client")
}

func (a *admin) create(ctx context.Context, method string, p *params) error {
	topics, err := read[[]struct {
		Name              string `json:"name"`
		Partitions        int32  `json:"partitions"`
		ReplicationFactor int16  `json:"replication_factor"`
		Count             int    `json:"count"`
	}](p.Topics)
	if err != nil {
		return illegalState(err.Error())
	}
	for _, topic := range topics {
		if method == "create_topics" {
			_, err = a.client.CreateTopic(ctx, topic.Partitions, topic.ReplicationFactor, nil, topic.Name)
		} else {
			var responses kadm.CreatePartitionsResponses
			if responses, err = a.client.UpdatePartitions(ctx, topic.Count, topic.Name); err == nil {
				err = responses.Error()
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (a *admin) describeCluster(ctx context.Context) (any, error) {
	metadata, err := a.client.BrokerMetadata(ctx)
	if err != nil {
		return nil, err
	}
	var controller any
	if metadata.Controller >= 0 {
		controller = metadata.Controller
	}
	nodes := []any{}
	for _, broker := range metadata.Brokers {
		nodes = append(nodes, object{"id": broker.NodeID, "host": broker.Host, "port": broker.Port})
	}
	return object{"cluster_id": metadata.Cluster, "controller": controller, "nodes": nodes}, nil
}

// listOffsets asks for all partitions of each topic, as kadm does.
func (a *admin) listOffsets(ctx context.Context, p *params) (any, error) {
	offsets := []any{}
	for _, at := range p.Partitions {
		listed, err := a.list(ctx, at)
		if err != nil {
			return nil, err
		}
		found, ok := listed.Lookup(at.Topic, at.Partition)
		if ok && found.Err != nil {
			return nil, found.Err
		}
		var offset any
		if ok && found.Offset >= 0 {
			offset = found.Offset
		}
		offsets = append(offsets, object{"topic": at.Topic, "partition": at.Partition, "offset": offset})
	}
	return object{"offsets": offsets}, nil
}

func (a *admin) list(ctx context.Context, at place) (kadm.ListedOffsets, error) {
	switch string(at.Spec) {
	case `"earliest"`:
		return a.client.ListStartOffsets(ctx, at.Topic)
	case `"latest"`:
		return a.client.ListEndOffsets(ctx, at.Topic)
	}
	timestamp, err := read[int64](at.Spec)
	if err != nil {
		return nil, illegalState(err.Error())
	}
	return a.client.ListOffsetsAfterMilli(ctx, timestamp, at.Topic)
}
