// What @qdrant/js-client-rest makes of a server, verb by verb. Run by run.sh, which starts the server; its address
// is in LIGHTCONE_URL. Each test has a collection of its own.
import assert from 'node:assert/strict';
import {after, test} from 'node:test';
import {QdrantClient} from '@qdrant/js-client-rest';

const client = new QdrantClient({url: process.env.LIGHTCONE_URL});
const made = [];

// Five points: three about Norway, two about Switzerland.
const points = [
  {id: 1, vector: [1, 0, 0, 0], payload: {city: 'Oslo', people: 709000, tags: ['sea', 'north'], coast: true}},
  {id: 2, vector: [0.9, 0.1, 0, 0], payload: {city: 'Bergen', people: 291000, tags: ['sea'], coast: true}},
  {id: 3, vector: [0.8, 0.2, 0, 0], payload: {city: 'Lillehammer', people: 28000, tags: ['north'], coast: false}},
  {id: 4, vector: [0, 0, 1, 0], payload: {city: 'Bern', people: 134000, tags: [], coast: false}},
  {id: '5c56c793-69f3-4fbf-87e6-c4bf54c28c26', vector: [0, 0, 0.9, 0.1], payload: {city: 'Thun', people: 43000}},
];

async function gallery(name) {
  made.push(name);
  await client.createCollection(name, {vectors: {size: 4, distance: 'Cosine'}});
  await client.upsert(name, {wait: true, points});
  return name;
}

const idsOf = (list) => list.map((point) => point.id);

after(async () => {
  for (const name of made) await client.deleteCollection(name);
});

test('collections are made, listed, described and dropped', async () => {
  assert.equal(await client.createCollection('js-made', {vectors: {size: 3, distance: 'Dot'}}), true);
  assert.deepEqual(await client.collectionExists('js-made'), {exists: true});
  assert.ok((await client.getCollections()).collections.some((one) => one.name === 'js-made'));
  const info = await client.getCollection('js-made');
  assert.equal(info.config.params.vectors.size, 3);
  assert.equal(info.config.params.vectors.distance, 'Dot');
  assert.equal(info.points_count, 0);
  await assert.rejects(client.createCollection('js-made', {vectors: {size: 3, distance: 'Dot'}}), {status: 409});
  assert.equal(await client.deleteCollection('js-made'), true);
  assert.deepEqual(await client.collectionExists('js-made'), {exists: false});
  await assert.rejects(client.getCollection('js-made'), {status: 404});
});

test('the client finds a version that it knows', async () => {
  assert.match((await client.versionInfo()).version, /^1\.\d+\.\d+$/);
  const {data} = await client.api().telemetry({});
  assert.equal(data.result.app.name, 'qdrant');
});

test('copies that a cluster would keep may be asked for', async () => {
  made.push('js-copies');
  const asked = {vectors: {size: 4, distance: 'Dot'}, shard_number: 2, replication_factor: 2};
  assert.equal(await client.createCollection('js-copies', asked), true);
});

test('aliases are made, listed, renamed and removed', async () => {
  const name = await gallery('js-aliases');
  const change = (action) => client.updateCollectionAliases({actions: [action]});
  await change({create_alias: {collection_name: name, alias_name: 'js-shop'}});
  assert.deepEqual((await client.getCollectionAliases(name)).aliases, [{alias_name: 'js-shop', collection_name: name}]);
  assert.equal((await client.count('js-shop')).count, points.length);
  await change({rename_alias: {old_alias_name: 'js-shop', new_alias_name: 'js-store'}});
  assert.ok((await client.getAliases()).aliases.some((one) => one.alias_name === 'js-store'));
  await change({delete_alias: {alias_name: 'js-store'}});
  assert.deepEqual((await client.getCollectionAliases(name)).aliases, []);
});

test('points come back as they were written', async () => {
  const name = await gallery('js-points');
  const [one, other] = await client.retrieve(name, {ids: [2, points[4].id], with_payload: true, with_vector: true});
  assert.deepEqual(one.payload, points[1].payload);
  assert.equal(other.id, points[4].id);
  assert.equal(one.vector.length, 4);
  const chosen = await client.retrieve(name, {ids: [1], with_payload: ['city']});
  assert.deepEqual(chosen[0].payload, {city: 'Oslo'});
  const batch = {ids: [10, 11], vectors: [[0, 1, 0, 0], [0, 1, 0.1, 0]], payloads: [{city: 'Rome'}, {city: 'Bari'}]};
  assert.equal((await client.upsert(name, {wait: true, batch})).status, 'completed');
  assert.equal((await client.count(name, {exact: true})).count, 7);
  assert.equal((await client.count(name, {filter: {must: [{key: 'coast', match: {value: true}}]}})).count, 2);
  await client.delete(name, {wait: true, points: [10]});
  await client.delete(name, {wait: true, filter: {must: [{key: 'city', match: {value: 'Bari'}}]}});
  assert.equal((await client.count(name)).count, 5);
});

test('scrolls have pages, filters and an order', async () => {
  const name = await gallery('js-scroll');
  const seen = [];
  for (let offset; ;) {
    const page = await client.scroll(name, {limit: 2, offset, with_payload: false});
    seen.push(...idsOf(page.points));
    if (page.next_page_offset == null) break;
    offset = page.next_page_offset;
  }
  assert.deepEqual(new Set(seen), new Set(idsOf(points)));
  await client.createPayloadIndex(name, {field_name: 'people', field_schema: 'integer', wait: true});
  const ordered = await client.scroll(name, {limit: 3, order_by: {key: 'people', direction: 'desc'}});
  assert.deepEqual(idsOf(ordered.points), [1, 2, 4]);
  const filtered = await client.scroll(name, {filter: {must: [{key: 'people', range: {gte: 100000, lt: 300000}}]}});
  assert.deepEqual(idsOf(filtered.points).sort(), [2, 4]);
  assert.ok((await client.getCollection(name)).payload_schema.people);
  await client.deletePayloadIndex(name, 'people', {wait: true});
  assert.equal((await client.getCollection(name)).payload_schema.people, undefined);
});

test('payloads are set, overwritten, cut and cleared', async () => {
  const name = await gallery('js-payloads');
  const payloadOf = async (id) => (await client.retrieve(name, {ids: [id], with_payload: true}))[0].payload;
  await client.setPayload(name, {payload: {country: 'Norway'}, points: [1], wait: true});
  assert.equal((await payloadOf(1)).country, 'Norway');
  await client.overwritePayload(name, {payload: {x: 1}, points: [2], wait: true});
  assert.deepEqual(await payloadOf(2), {x: 1});
  await client.deletePayload(name, {keys: ['tags', 'coast', 'people'], points: [3], wait: true});
  assert.deepEqual(await payloadOf(3), {city: 'Lillehammer'});
  await client.updateVectors(name, {points: [{id: 3, vector: [0, 0, 0, 1]}], wait: true});
  assert.deepEqual(await payloadOf(3), {city: 'Lillehammer'});
  assert.deepEqual((await client.retrieve(name, {ids: [3], with_vector: true}))[0].vector, [0, 0, 0, 1]);
  await client.clearPayload(name, {points: [4], wait: true});
  assert.deepEqual(await payloadOf(4), {});
  await client.batchUpdate(name, {
    wait: true,
    operations: [
      {upsert: {points: [{id: 20, vector: [0, 0, 0, 1], payload: {city: 'Nice'}}]}},
      {set_payload: {payload: {people: 343000}, points: [20]}},
      {delete: {points: [1]}},
    ],
  });
  assert.deepEqual(await payloadOf(20), {city: 'Nice', people: 343000});
  assert.deepEqual(await client.retrieve(name, {ids: [1]}), []);
});

test('queries find neighbours, with filters, thresholds, offsets and chosen payload', async () => {
  const name = await gallery('js-queries');
  const found = await client.query(name, {query: [1, 0, 0, 0], limit: 3, with_payload: true});
  assert.deepEqual(idsOf(found.points), [1, 2, 3]);
  assert.ok(Math.abs(found.points[0].score - 1) < 1e-5);
  assert.equal(found.points[0].payload.city, 'Oslo');
  const old = await client.search(name, {vector: [1, 0, 0, 0], limit: 2, with_payload: {include: ['city']}});
  assert.deepEqual(old.map((hit) => hit.payload), [{city: 'Oslo'}, {city: 'Bergen'}]);
  const filter = {must: [{key: 'tags', match: {any: ['north']}}], must_not: [{has_id: [1]}]};
  assert.deepEqual(idsOf((await client.query(name, {query: [1, 0, 0, 0], filter, limit: 5})).points), [3]);
  const near = await client.query(name, {query: [1, 0, 0, 0], score_threshold: 0.98, limit: 5});
  assert.deepEqual(idsOf(near.points), [1, 2]);
  const later = await client.query(name, {query: [1, 0, 0, 0], limit: 1, offset: 1});
  assert.deepEqual(idsOf(later.points), [2]);
  const byPoint = await client.query(name, {query: 1, limit: 1});
  assert.deepEqual(idsOf(byPoint.points), [2]);
  const [a, b] = await client.queryBatch(name, {
    searches: [{query: [1, 0, 0, 0], limit: 1}, {query: [0, 0, 1, 0], limit: 1}],
  });
  assert.deepEqual([idsOf(a.points), idsOf(b.points)], [[1], [4]]);
  const batch = await client.searchBatch(name, {searches: [{vector: [0, 0, 1, 0], limit: 2}]});
  assert.deepEqual(idsOf(batch[0]), [4, points[4].id]);
});

test('recommendations leave out their examples', async () => {
  const name = await gallery('js-recommend');
  assert.deepEqual(idsOf(await client.recommend(name, {positive: [1], limit: 2})), [2, 3]);
  const by = {recommend: {positive: [1, 2], negative: [4]}};
  assert.deepEqual(idsOf((await client.query(name, {query: by, limit: 1})).points), [3]);
});

test('hits have groups, and fields have counts', async () => {
  const name = await gallery('js-groups');
  const groups = (await client.queryGroups(name, {query: [1, 0, 0, 0], group_by: 'coast', limit: 2, group_size: 1})).groups;
  assert.deepEqual(groups.map((group) => [group.id, idsOf(group.hits)]), [['true', [1]], ['false', [3]]]);
  const byCity = await client.searchPointGroups(name, {vector: [1, 0, 0, 0], group_by: 'city', limit: 2, group_size: 1});
  assert.deepEqual(byCity.groups.map((group) => group.id), ['Oslo', 'Bergen']);
  await client.createPayloadIndex(name, {field_name: 'tags', field_schema: 'keyword', wait: true});
  const facet = await client.facet(name, {key: 'tags'});
  assert.deepEqual(new Set(facet.hits.map((hit) => `${hit.value} ${hit.count}`)), new Set(['sea 2', 'north 2']));
});

test('what is not there is refused by name, and nothing is done', async () => {
  const name = await gallery('js-refused');
  const refused = (call, text) =>
    assert.rejects(call, (error) => error.status === 501 && JSON.stringify(error.data).includes(text));
  await refused(client.deleteVectors(name, {points: [1], vector: ['a']}), 'vectors');
  await refused(client.query(name, {query: {fusion: 'rrf'}, prefetch: [{query: [1, 0, 0, 0]}]}), 'prefetch');
  await assert.rejects(client.upsert(name, {points: [{id: 1, vector: [1, 2]}]}), {status: 400});
  await assert.rejects(client.delete(name, {filter: {musst: []}}), {status: 400});
  assert.equal((await client.count(name)).count, points.length);
});
