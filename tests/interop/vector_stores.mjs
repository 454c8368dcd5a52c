// Vector stores that speak to Qdrant, with a stub for the embeddings: those of LangChain, LlamaIndex and Mastra. Run by
// run.sh.
import assert from 'node:assert/strict';
import {after, test} from 'node:test';
import {Embeddings} from '@langchain/core/embeddings';
import {QdrantVectorStore} from '@langchain/qdrant';
import {TextNode} from '@llamaindex/core/schema';
import {QdrantVectorStore as LlamaIndexStore} from '@llamaindex/qdrant';
import {QdrantVector} from '@mastra/qdrant';
import {QdrantClient} from '@qdrant/js-client-rest';

const url = process.env.LIGHTCONE_URL;

// Counts letters: texts with the same letters are near.
class Letters extends Embeddings {
  constructor() {
    super({});
  }
  async embedQuery(text) {
    const counts = Array(26).fill(0.01);
    for (const letter of text.toLowerCase()) {
      const place = letter.charCodeAt(0) - 97;
      if (place >= 0 && place < 26) counts[place] += 1;
    }
    return counts;
  }
  async embedDocuments(texts) {
    return Promise.all(texts.map((text) => this.embedQuery(text)));
  }
}

after(async () => {
  const client = new QdrantClient({url});
  await Promise.allSettled(['js-langchain', 'js-llamaindex'].map((name) => client.deleteCollection(name)));
});

test('LangChain: documents are added, found, spread and deleted', async () => {
  const texts = ['apple pie', 'banana bread', 'cherry cake'];
  const settings = {url, collectionName: 'js-langchain'};
  const store = await QdrantVectorStore.fromTexts(texts, [{n: 1}, {n: 2}, {n: 3}], new Letters(), settings);
  const [nearest] = await store.similaritySearch('banana', 1);
  assert.equal(nearest.pageContent, 'banana bread');
  assert.equal(nearest.metadata.n, 2);
  const filter = {must: [{key: 'metadata.n', match: {value: 1}}]};
  const scored = await store.similaritySearchWithScore('apple pie', 2, filter);
  assert.equal(scored.length, 1);
  assert.ok(scored[0][1] > 0.99);
  await store.addDocuments([{pageContent: 'damson jam', metadata: {n: 4}}]);
  const spread = await store.maxMarginalRelevanceSearch('cherry', {k: 2, fetchK: 4});
  assert.equal(spread.length, 2);
  assert.equal(spread[0].pageContent, 'cherry cake');
  await store.delete({filter: {must: [{key: 'metadata.n', match: {value: 4}}]}});
  assert.equal((await store.similaritySearch('damson', 10)).length, 3);
});

test('LlamaIndex: nodes are added, found, filtered and deleted by document', async () => {
  const letters = new Letters();
  const texts = ['apple pie', 'banana bread', 'cherry cake', 'date bar'];
  const nodes = await Promise.all(texts.map(async (text, n) => new TextNode({
    id_: `0e4d7f2a-5b0c-4c58-9d3c-00000000000${n}`,
    text,
    metadata: {n, kind: n % 2 ? 'odd' : 'even'},
    embedding: await letters.embedQuery(text),
    relationships: {SOURCE: {nodeId: `book-${n % 2}`, metadata: {}}},
  })));
  const store = new LlamaIndexStore({url, collectionName: 'js-llamaindex', embedModel: {}});
  assert.deepEqual(await store.add(nodes), nodes.map((node) => node.id_));
  const ask = async (text, more) =>
    store.query({queryEmbedding: await letters.embedQuery(text), similarityTopK: 4, mode: 'default', ...more});
  const nearest = await ask('banana');
  assert.equal(nearest.ids.length, 4);
  assert.equal(nearest.ids[0], nodes[1].id_);
  assert.equal(nearest.nodes[0].text, 'banana bread');
  assert.ok(nearest.similarities[0] > nearest.similarities[1]);
  const found = async (...filters) =>
    (await ask('banana', {filters: {filters}})).nodes.map((node) => node.metadata.n).sort();
  assert.deepEqual(await found({key: 'n', value: 2, operator: '=='}), [2]);
  assert.deepEqual(await found({key: 'n', value: 1, operator: '>'}, {key: 'kind', value: 'odd', operator: '=='}), [3]);
  assert.deepEqual(await found({key: 'kind', value: 'odd', operator: '!='}), [0, 2]);
  assert.deepEqual(await found({key: 'kind', value: ['odd', 'none'], operator: 'in'}), [1, 3]);
  assert.deepEqual(await found({key: 'absent', operator: 'is_empty'}), [0, 1, 2, 3]);
  assert.deepEqual((await ask('banana', {docIds: ['book-0']})).ids.length, 2);
  await store.delete('book-0');
  assert.deepEqual(await found({key: 'n', value: 0, operator: '>='}), [1, 3]);
});

test('Mastra: an index is made, filled, asked, changed and dropped', async () => {
  const indexName = 'js-mastra';
  const store = new QdrantVector({id: 'interop', url});
  await store.createIndex({indexName, dimension: 3, metric: 'cosine'});
  assert.ok((await store.listIndexes()).includes(indexName));
  const vectors = [[1, 0, 0], [0, 1, 0], [0, 0, 1]];
  const metadata = [{k: 'a', n: 1}, {k: 'b', n: 2}, {k: 'c', n: 3}];
  const ids = await store.upsert({indexName, vectors, metadata});
  const ask = (more) => store.query({indexName, queryVector: [1, 0, 0], topK: 5, ...more});
  const [first] = await ask({includeVector: true});
  assert.equal(first.id, ids[0]);
  assert.equal(first.metadata.k, 'a');
  assert.equal(first.vector.length, 3);
  assert.equal((await ask({filter: {n: {$gt: 1}}})).length, 2);
  const described = await store.describeIndex({indexName});
  assert.deepEqual([described.dimension, described.count], [3, 3]);
  await store.updateVector({indexName, id: ids[0], update: {metadata: {k: 'z'}}});
  assert.equal((await ask({topK: 1}))[0].metadata.k, 'z');
  await store.deleteVector({indexName, id: ids[1]});
  assert.equal((await store.describeIndex({indexName})).count, 2);
  await store.deleteIndex({indexName});
});
