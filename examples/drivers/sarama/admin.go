package main

import (
	"encoding/json"
	"errors"
	"net"
	"slices"
	"strconv"

	"github.com/IBM/sarama"
)

// admin connects with its first call.
type admin struct {
	config *sarama.Config
	seeds  []string
	client sarama.ClusterAdmin
}

func (a *admin) close() (any, error) {
	if a.client == nil {
		return object{}, nil
	}
	return object{}, a.client.Close()
}

func (a *admin) call(method string, p *params) (any, error) {
	if a.client == nil {
		created, err := sarama.NewClusterAdmin(a.seeds, a.config)
		if err != nil {
			return nil, err
		}
		a.client = created
	}
	switch method {
	case "create_topics", "create_partitions":
		return object{}, a.create(method, p)
	case "delete_topics":
		var topics []string
		if err := json.Unmarshal(p.Topics, &topics); err != nil {
			return nil, illegalState(err.Error())
		}
		for _, topic := range topics {
			if err := a.client.DeleteTopic(topic); err != nil {
				return nil, err
			}
		}
		return object{}, nil
	case "list_topics":
		found, err := a.client.ListTopics()
		if err != nil {
			return nil, err
		}
		topics := []string{}
		for topic := range found {
			topics = append(topics, topic)
		}
		slices.Sort(topics)
		return object{"topics": topics}, nil
	case "describe_cluster":
		return a.describeCluster()
	case "list_offsets":
		return a.listOffsets(p)
	}
	return nil, unsupported("method " + method + " of an admin client")
}

func (a *admin) create(method string, p *params) error {
	var topics []struct {
		Name              string `json:"name"`
		Partitions        int32  `json:"partitions"`
		ReplicationFactor int16  `json:"replication_factor"`
		Count             int32  `json:"count"`
	}
	if err := json.Unmarshal(p.Topics, &topics); err != nil {
		return illegalState(err.Error())
	}
	for _, topic := range topics {
		var err error
		if method == "create_topics" {
			detail := &sarama.TopicDetail{NumPartitions: topic.Partitions, ReplicationFactor: topic.ReplicationFactor}
			err = a.client.CreateTopic(topic.Name, detail, false)
		} else {
			err = a.client.CreatePartitions(topic.Name, topic.Count, nil, false)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// describeCluster has no cluster id: the client does not show it.
func (a *admin) describeCluster() (any, error) {
	brokers, controller, err := a.client.DescribeCluster()
	if err != nil {
		return nil, err
	}
	nodes := []any{}
	for _, broker := range brokers {
		host, port, err := net.SplitHostPort(broker.Addr())
		if err != nil {
			return nil, err
		}
		number, err := strconv.Atoi(port)
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, object{"id": broker.ID(), "host": host, "port": number})
	}
	return object{"cluster_id": nil, "controller": controller, "nodes": nodes}, nil
}

func (a *admin) listOffsets(p *params) (any, error) {
	ends := map[string]int64{`"earliest"`: sarama.OffsetOldest, `"latest"`: sarama.OffsetNewest}
	offsets := []any{}
	for _, at := range p.Partitions {
		spec, ok := ends[string(at.Spec)]
		if !ok {
			if err := json.Unmarshal(at.Spec, &spec); err != nil {
				return nil, illegalState(err.Error())
			}
		}
		found, err := a.client.ListOffsets(map[string]map[int32]int64{at.Topic: {at.Partition: spec}}, nil)
		if err != nil {
			return nil, err
		}
		result := found[at.Topic][at.Partition]
		if result.Err != nil && !errors.Is(result.Err, sarama.ErrNoError) {
			return nil, result.Err
		}
		var offset any
		if result.Offset >= 0 {
			offset = result.Offset
		}
		offsets = append(offsets, object{"topic": at.Topic, "partition": at.Partition, "offset": offset})
	}
	return object{"offsets": offsets}, nil
}
