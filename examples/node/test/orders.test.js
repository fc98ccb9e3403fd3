import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Kafka, logLevel } from 'kafkajs';

import { MockBroker, mockbroker } from '../mockbroker.js';

function connect(broker) {
  const brokers = broker.bootstrapServers.split(',');
  return new Kafka({ clientId: 'shop', brokers, logLevel: logLevel.NOTHING, retry: { initialRetryTime: 10 } });
}

async function send(broker, value) {
  const producer = connect(broker).producer();
  await producer.connect();
  try {
    await producer.send({ topic: 'orders', messages: [{ value }] });
  } finally {
    await producer.disconnect();
  }
}

test('a producer sends an order again when the leader has moved', async (t) => {
  const broker = await mockbroker(t, '--topic', 'orders:1');
  await broker.addFault({ api: 'Produce', topic: 'orders', times: 2 }, { error: 'NOT_LEADER_OR_FOLLOWER' });

  await send(broker, 'one espresso');

  await broker.assertCount(3, 'Produce', { topic: 'orders', clientId: 'shop' });
  await broker.assertCount(2, 'Produce', { error: 'NOT_LEADER_OR_FOLLOWER' });
});

test('a consumer commits what it has read', async (t) => {
  const broker = await mockbroker(t, '--topic', 'orders:1');
  await send(broker, 'one espresso');

  const consumer = connect(broker).consumer({ groupId: 'kitchen' });
  await consumer.connect();
  const values = [];
  try {
    await consumer.subscribe({ topic: 'orders', fromBeginning: true });
    await consumer.run({ eachMessage: async ({ message }) => values.push(message.value.toString()) });
    await broker.waitFor('group', { groupId: 'kitchen', state: 'Stable', members: 1 });
    await broker.waitFor('offset', { groupId: 'kitchen', topic: 'orders', partition: 0, offset: 1 });
  } finally {
    await consumer.disconnect(); // Before the broker ends: hooks of node:test run in the order of their registration.
  }

  assert.deepEqual(values, ['one espresso']);
});

test('a failing assertion shows the nearest requests, and a fault that has not acted is reported', async (t) => {
  const broker = await mockbroker(t, '--topic', 'orders:1');
  await send(broker, 'one espresso');

  await assert.rejects(broker.assertCount(1, 'Produce', { clientId: 'kitchen' }), (error) => {
    assert.match(error.message, /expected 1 requests .* but there are 0/);
    assert.match(error.message, /#\d+ Produce v\d+ .*"clientId":"shop","topics":\{"orders":\[0\]\}/);
    return true;
  });
  await assert.rejects(broker.waitFor('group', { groupId: 'bar', timeoutMs: 1 }), /seen instead: no such group/);
  await broker.addFault({ api: 'Produce' }, { error: 'NOT_LEADER_OR_FOLLOWER' });
  await assert.rejects(broker.assertFaultsActed(), /no requests of Produce came/);
  await broker.reset();
});

test('the process ends when it is closed, and a start that fails says why', async () => {
  const broker = await MockBroker.start();
  assert.ok(broker.isRunning);
  await broker.close();

  assert.ok(!broker.isRunning);
  await assert.rejects(MockBroker.start('--port', '70000'), /it has ended/);
});
