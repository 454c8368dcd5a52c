// All collections at a glance, and how the server is doing now.
import { read } from './api.js';
import { lineChart } from './charts.js';
import { backfillBadge, bytes, card, count, duration, empty, h, link, percent, recallBadge, recentRecall, shareBar, badge, redraw } from './dom.js';

export const every = 2000;
const kPointsMax = 150;
let before = null;     // the last answer, for rates
const latency = [];    // {time, p50, p99}

// The upper bound of the bucket in which the share of calls lies, between its bounds in proportion.
function quantile(buckets, share) {
  const total = buckets.length ? buckets[buckets.length - 1][1] : 0;
  if (!total) return null;
  const rank = share * total;
  let below = 0, low = 0;
  for (const [bound, cumulative] of buckets) {
    if (cumulative >= rank) return low + (bound - low) * ((rank - below) / Math.max(1, cumulative - below));
    below = cumulative;
    low = bound;
  }
  return low;
}

function since(now, old, method) {
  const find = (answer) => answer?.calls.find((c) => c.method === method);
  const a = find(now), b = find(old);
  if (!a) return { calls: 0, buckets: [] };
  if (!b) return { calls: a.count, buckets: a.buckets };
  return { calls: a.count - b.count, buckets: a.buckets.map(([bound, n], i) => [bound, n - (b.buckets[i]?.[1] ?? 0)]) };
}

const faultsAmong = (codes) => (codes.INTERNAL ?? 0) + (codes.DATA_LOSS ?? 0);
// Of calls, and of queries and batches within calls that ended well.
const faults = (answer) => answer.calls.reduce((sum, c) => sum + faultsAmong(c.codes) + faultsAmong(c.part_errors), 0);
const calls = (answer) => answer.calls.reduce((sum, c) => sum + c.count, 0);

function figure(title, value, unit, note) {
  return h('div', {}, h('dt', {}, title), h('dd', {}, value, unit && h('small', {}, unit)), note && h('dd', { class: 'note' }, note));
}

export async function update(root) {
  const now = await read('overview');
  const seconds = before ? now.time - before.time : 0;
  const searches = since(now, before, 'Retrieval/Search');
  const rate = seconds > 0 ? searches.calls / seconds : 0;
  if (before) {
    latency.push({ time: now.time, p50: quantile(searches.buckets, 0.5), p99: quantile(searches.buckets, 0.99) });
    if (latency.length > kPointsMax) latency.shift();
  }
  const whole = since(now, null, 'Retrieval/Search');
  before = now;

  const recalls = now.collections.map((c) => recentRecall(c.live)).filter((r) => r !== null);
  const items = now.collections.reduce((sum, c) => sum + c.items, 0);
  const latest = latency[latency.length - 1];
  redraw(root,
    h('div', { class: 'head' }, h('div', {}, h('h1', {}, 'Overview'),
      h('p', { class: 'sub' }, `Lightcone ${now.version} · gRPC at ${now.grpc || '–'}${now.read_only ? ' · read-only console' : ''}`)),
      now.store.stalled && badge('the store delays writes', 'bad')),
    h('dl', { class: 'figures' },
      figure('Searches', rate >= 100 ? count(Math.round(rate)) : rate.toFixed(1), 'a second', `${count(whole.calls)} since the start`),
      figure('Latency, median', duration(latest?.p50 ?? quantile(whole.buckets, 0.5) ?? NaN), null, latest?.p50 == null ? 'since the start' : 'last 2 s'),
      figure('Latency, p99', duration(latest?.p99 ?? quantile(whole.buckets, 0.99) ?? NaN), null, latest?.p99 == null ? 'since the start' : 'last 2 s'),
      figure('Live recall', recalls.length ? percent(Math.min(...recalls)) : '–', null, recalls.length > 1 ? 'of the worst collection' : 'against exact search'),
      figure('Items', count(items), null, `${bytes(now.store.bytes)} stored, ${bytes(now.disk.free)} free`)),
    faults(now) > 0 && h('p', { class: 'callout bad', role: 'alert' }, h('strong', {}, `${count(faults(now))} calls, or parts of calls, of ${count(calls(now))} calls failed through a fault of the server.`), ' Its log names them.'),
    h('div', { class: 'grid' },
      now.collections.length
        ? card('w12', 'Collections', null, h('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': 'Collections' },
          h('table', {}, h('caption', { class: 'visually-hidden' }, 'Collections'),
            h('thead', {}, h('tr', {}, ['Name', 'Serves', 'Items', 'By generation', 'Live recall', 'Backfill'].map((t) => h('th', { scope: 'col', class: t === 'Items' ? 'n' : null }, t)))),
            h('tbody', {}, now.collections.map(row)))))
        : h('section', { class: 'card w12' }, empty('No collections yet', 'A collection is a gallery with a line of model generations. Make the first one:', 'lightcone collection create photos --geometry cosine\nlightcone generation register photos --dimension 512 --activate')),
      card('w12', 'Search latency', 'median and p99 over two seconds', latency.filter((p) => p.p50 !== null).length > 1
        ? lineChart([{ label: 'p99', points: latency.map((p) => [p.time, p.p99]) }, { label: 'median', points: latency.map((p) => [p.time, p.p50]) }], { format: duration, label: 'Search latency' })
        : h('p', { class: 'quietly' }, 'No searches while this page has been open.'))));
}

function row(c) {
  const left = c.backfill.items_done + c.backfill.items_left;
  return h('tr', {},
    h('td', { class: 'name' }, h('a', { href: link('collections', c.name) }, c.name)),
    h('td', { class: 'whole' }, c.active_generation ? `generation ${c.active_generation}` : h('span', { class: 'quietly' }, 'nothing yet')),
    h('td', { class: 'n' }, count(c.items)),
    h('td', {}, c.items ? shareBar(c.items_by_generation, Math.max(c.active_generation, ...c.items_by_generation.map((i) => i.generation))) : h('span', { class: 'quietly' }, 'empty')),
    h('td', {}, recallBadge(recentRecall(c.live))),
    h('td', {}, c.backfill.state === 'none' ? h('span', { class: 'quietly' }, 'none') : h('span', { class: 'actions' }, backfillBadge(c.backfill), left > 0 && percent(c.backfill.items_done / left))));
}

export function leave() { before = null; latency.length = 0; }
