// The playground: search by a vector, an image or a stored item, and see where the answers come from.
import { picture, read, search } from './api.js';
import { head } from './collection.js';
import { badge, count, duration, empty, h, idText, number, percent, plural, table, tone, card, fill } from './dom.js';

let page = null, form = null, results = null, image = null, made = null;
let pictures = [];

export async function update(root, name) {
  page = await read('collections', name);
  if (made === root) return;
  made = root;
  form = build();
  results = h('div', { class: 'w8', 'aria-live': 'polite', id: 'results' });
  fill(root, ...head(page.name, 'Search', null, page.active_generation ? `Queries are taken as embedded by generation ${page.active_generation}` : 'No generation serves yet'),
    h('div', { class: 'grid' }, form, results));
  fill(results, card('', null, null, empty('Nothing searched yet', page.items ? 'Paste a vector, name an item, or drop an image where the generation has an encoder.' : 'The collection has no items.')));
}

const serving = () => page.generations.find((g) => g.generation === page.active_generation);

function build() {
  const vector = h('textarea', { id: 'vector', spellcheck: 'false', placeholder: '0.12, -0.5, …' });
  const item = h('input', { id: 'item', autocomplete: 'off', placeholder: '#42 or a name' });
  const k = h('input', { id: 'k', type: 'number', min: '1', max: '200', value: '12' });
  const ef = h('input', { id: 'ef', type: 'number', min: '0', placeholder: 'default' });
  const exact = h('input', { id: 'exact', type: 'checkbox' });
  const file = h('input', { id: 'file', type: 'file', accept: 'image/png,image/jpeg,image/webp', class: 'visually-hidden' });
  const shown = h('div');
  const forget = () => {
    image = null;
    file.value = '';
    shown.replaceChildren('Drop an image, or ', h('label', { for: 'file', class: 'button', style: { display: 'inline-flex', margin: '0' } }, 'choose one'));
  };
  forget();
  // One query at a time: what is given last is what is asked.
  const only = (given, other) => { if (given.value.trim()) { other.value = ''; forget(); } };
  vector.addEventListener('input', () => only(vector, item));
  item.addEventListener('input', () => only(item, vector));
  const drop = h('div', { class: 'drop', id: 'drop' }, shown, file);
  const take = (chosen) => {
    if (!chosen) return;
    image = chosen;
    const url = URL.createObjectURL(chosen);
    pictures.push(url);
    shown.replaceChildren(h('img', { src: url, alt: 'The query' }), h('p', {}, chosen.name), h('button', { type: 'button', class: 'small', onclick: forget }, 'Remove'));
    vector.value = item.value = '';
  };
  file.addEventListener('change', () => take(file.files[0]));
  drop.addEventListener('dragover', (e) => { e.preventDefault(); drop.classList.add('over'); });
  drop.addEventListener('dragleave', () => drop.classList.remove('over'));
  drop.addEventListener('drop', (e) => { e.preventDefault(); drop.classList.remove('over'); take(e.dataTransfer.files[0]); });
  const dimension = serving()?.dimension;
  const element = h('form', { class: 'card w4 fields' },
    serving()?.has_encoder ? drop : h('p', { class: 'quietly' }, 'The serving generation has no encoder here: search by a vector or an item.'),
    h('div', {}, h('label', { for: 'vector' }, `Vector${dimension ? `, ${dimension} numbers` : ''}`), vector),
    h('div', {}, h('label', { for: 'item' }, 'More like this item'), item),
    h('div', { class: 'three' }, h('div', {}, h('label', { for: 'k' }, 'Hits'), k), h('div', {}, h('label', { for: 'ef' }, 'Breadth (ef)'), ef),
      h('label', { class: 'check', for: 'exact' }, exact, 'Exact')),
    h('div', { class: 'actions' }, h('button', { type: 'submit', class: 'primary', id: 'go' }, 'Search'),
      h('button', { type: 'button', onclick: () => { vector.value = Array.from({ length: dimension ?? 0 }, () => gaussian().toFixed(4)).join(', '); item.value = ''; forget(); } }, 'Random vector')));
  element.addEventListener('submit', (event) => {
    event.preventDefault();
    const parameters = { k: k.value || '12', ...(ef.value && { ef: ef.value }), ...(exact.checked && { exact: '1' }) };
    run(parameters, vector.value, item.value.trim());
  });
  return element;
}

const gaussian = () => Math.sqrt(-2 * Math.log(1 - Math.random())) * Math.cos(2 * Math.PI * Math.random());

function bodyOf(vector, item) {
  if (image) return [image, image.type || 'image/png'];
  if (item) return [JSON.stringify({ item: /^#\d+$/.test(item) ? { number: item.slice(1) } : { name: item } })];
  const numbers = vector.replace(/[[\]]/g, ' ').split(/[\s,;]+/).filter((t) => t).map(Number);
  const wrong = numbers.findIndex((n) => !Number.isFinite(n));
  if (wrong >= 0) throw new Error(`Number ${wrong + 1} of the vector is none.`);
  if (!numbers.length) throw new Error('Give a vector, an item or an image.');
  return [JSON.stringify({ vector: numbers })];
}

async function run(parameters, vector, item) {
  const go = document.getElementById('go');
  go.disabled = true;
  try {
    const [body, type] = bodyOf(vector, item);
    show(await search(page.name, parameters, body, type));
  } catch (problem) {
    fill(results, h('p', { class: 'callout bad', role: 'alert' }, problem.message));
  } finally {
    go.disabled = false;
  }
}

function show(answer) {
  pictures.forEach((url) => URL.revokeObjectURL(url));
  pictures = [];
  const newest = page.generations.length;
  const most = Math.max(1e-9, ...answer.hits.map((hit) => hit.uncertainty ?? 0));
  fill(results,
    card('', plural(answer.hits.length, 'hit'), `${duration(answer.milliseconds / 1000)}, served by generation ${answer.serving_generation}`,
      answer.partial && h('p', { class: 'callout' }, 'Partial: the time ran out before every leg had answered.'),
      answer.out_of_reach > 0 && h('p', { class: 'callout' }, `${plural(answer.out_of_reach, 'item')} out of reach of this query.`),
      answer.hits.length ? h('ol', { class: 'hits' }, answer.hits.map((hit, i) => hitCard(hit, i, newest, most))) : empty('No hits', 'Nothing within reach.')),
    h('div', { style: { height: '16px' } }),
    card('', 'Legs', 'one for each generation that has items', table(
      [['Generation'], ['Reached by'], ['Items', 'n'], ['Hits', 'n'], ['Mean uncertainty', 'n']],
      answer.legs.map((leg) => [h('span', {}, h('span', { class: `key ${tone(leg.generation, newest)}` }), ` ${leg.generation}`), leg.way, count(leg.items), count(leg.hits), number(leg.uncertainty, 3)]), 'Legs')));
}

function hitCard(hit, i, newest, most) {
  const pic = h('div', { class: 'pic' }, hit.has_input ? '' : 'no picture stored');
  if (hit.has_input) {
    picture(page.name, hit.id).then((url) => { pictures.push(url); pic.replaceChildren(h('img', { src: url, alt: `Input of ${idText(hit.id)}` })); })
      .catch(() => { pic.textContent = 'no picture'; });
  }
  const payload = JSON.stringify(hit.payload);
  return h('li', { class: 'hit' }, pic, h('div', { class: 'body' },
    h('div', { class: 'id', title: idText(hit.id) }, `${i + 1}. ${idText(hit.id)}`),
    h('div', { class: 'pair' }, h('span', {}, 'Distance'), h('span', {}, number(hit.distance))),
    hit.score !== null && hit.score !== -hit.distance && h('div', { class: 'pair' }, h('span', {}, 'Calibrated'), h('span', {}, number(-hit.score))),
    h('div', { class: 'pair' }, h('span', {}, 'Uncertainty'), h('span', {}, number(hit.uncertainty, 3))),
    h('div', { class: 'meter', 'aria-hidden': 'true' }, h('span', { style: { width: `${(100 * (hit.uncertainty ?? 0)) / most}%` } })),
    h('div', { class: 'pair' }, h('span', {}, 'Generation'), h('span', {}, h('span', { class: `key ${tone(hit.generation, newest)}` }), ` ${hit.generation}`)),
    h('div', { class: 'pair' }, h('span', {}, 'Segment'), h('span', {}, hit.segment)),
    payload !== '{}' && h('div', { class: 'payload', title: payload }, payload)));
}

export function leave() {
  pictures.forEach((url) => URL.revokeObjectURL(url));
  pictures = [];
  image = made = null;
}
