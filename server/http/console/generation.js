// One generation: what it is, what it reaches, how it was trained.
import { read } from './api.js';
import { activate, retire, takeUp, validate } from './actions.js';
import { losses } from './jobs.js';
import { validationCard } from './validation.js';
import { badge, bytes, card, count, empty, facts, generationBadge, h, link, number, percent, plural, recentRecall, recallBadge, table, when, redraw } from './dom.js';

export const every = 5000;
let shownAs = '';

export async function update(root, name, which) {
  const [page, generation, { jobs }] = await Promise.all([read('collections', name), read('collections', name, 'generations', which), read('collections', name, 'jobs')]);
  const trained = jobs.find((job) => job.made === generation.generation && job.curve.length > 1);
  const now = JSON.stringify([page.items_by_generation, page.live, page.adapters, page.active_generation, page.probe_sets, generation, trained?.id]);
  if (now === shownAs && root.hasChildNodes()) return;
  shownAs = now;
  const g = generation;
  const manifest = typeof g.manifest === 'object' && g.manifest ? g.manifest : {};
  const training = manifest.training ?? {};
  const adapters = page.adapters.filter((a) => a.from === g.generation || a.to === g.generation);
  redraw(root,
    h('nav', { class: 'crumbs', 'aria-label': 'Way here' }, h('a', { href: '#/' }, 'Overview'), h('span', { 'aria-hidden': 'true' }, '/'), h('a', { href: link('collections', page.name) }, page.name), h('span', { 'aria-hidden': 'true' }, '/'), h('span', {}, `Generation ${g.generation}`)),
    h('div', { class: 'head' },
      h('div', {}, h('h1', {}, `Generation ${g.generation} `, generationBadge(g.state)), h('p', { class: 'sub' }, [manifest.name, g.method || 'external', `${g.dimension} dimensions`].filter((t) => t).join(' · '))),
      !page.read_only && g.state !== 'retired' && h('div', { class: 'actions' },
        g.state === 'draft' && h('button', { type: 'button', class: 'primary', id: `take-up-${g.generation}`, onclick: () => takeUp(page, g) }, 'Take up'),
        g.state !== 'draft' && page.probe_sets.length > 0 && h('button', { type: 'button', id: `validate-${g.generation}`, onclick: () => validate(page, g) }, 'Validate'),
        g.state !== 'active' && h('button', { type: 'button', id: `retire-${g.generation}`, onclick: () => retire(page, g) }, 'Retire'),
        g.state !== 'active' && g.state !== 'draft' && h('button', { type: 'button', class: 'primary', id: `activate-${g.generation}`, onclick: () => activate(page, g) }, 'Activate'))),
    h('div', { class: 'grid' },
      card('w6', 'Model', null, facts([
        ['Method', g.method || 'external'], ['Architecture', manifest.architecture ?? '–'], ['Encoder', g.has_encoder ? 'on this server' : 'outside: applications send vectors'],
        ['Space', g.metric === 'lorentz' ? `Lorentz, ${g.dimension} dimensions, curvature −${g.curvature}, clip radius ${g.clip_radius ?? '–'}` : `${g.metric.replace('_', ' ')}, ${g.dimension} dimensions`],
        g.compatible_prefix > 0 && ['Compatible prefix', `${g.compatible_prefix} leading numbers`],
        ['Parent', g.parent ? h('a', { href: link('collections', page.name, 'generations', String(g.parent)) }, `generation ${g.parent}`) : 'none'],
        ['Registered', when(g.registered)], ['Last activated', g.activated ? when(g.activated) : 'never']])),
      card('w6', 'In this collection', null, facts([
        ['Items it embedded', count(g.items)], ['Its queries reach', g.reach.map((r) => `generation ${r}`).join(', ')],
        ['Out of its reach', plural(page.items_by_generation.filter((i) => !g.reach.includes(i.generation)).reduce((s, i) => s + i.items, 0), 'item')],
        ['Live recall of its queries', recallBadge(recentRecall(page.live, (one) => one.query_generation === g.generation))]])),
      validationCard(page, g),
      Object.keys(training).length > 0 && card('w6', 'Training', null, facts([
        training.dataset && ['Data set', training.dataset], training.recipe && ['Recipe', training.recipe], training.epochs && ['Epochs', count(training.epochs)],
        training.images && ['Images', count(training.images)], training.images_per_second && ['Images a second', count(Math.round(training.images_per_second))],
        training.seconds && ['Time', `${count(Math.round(training.seconds))} s`], training.final_loss !== undefined && ['Final loss', number(training.final_loss)], training.seed !== undefined && ['Seed', String(training.seed)]])),
      trained && card('w6', 'Losses', `of training ${trained.id}, by epoch`, losses(trained)),
      adapters.length > 0 && card('w6', 'Adapters', null, table([['From → to'], ['Carries'], ['Fitted from', 'n'], ['Held-out error', 'n'], ['Size', 'n']],
        adapters.map((a) => [`${a.from} → ${a.to}`, a.direction === 'item' ? 'items' : 'queries', plural(a.pairs, a.matched ? 'matched pair' : 'pair'), number(a.held_out_error), bytes(a.bytes)]), 'Adapters')),
      card(Object.keys(training).length > 0 && !adapters.length && !trained ? 'w6' : 'w12', 'Manifest', null, h('pre', { tabindex: '0', 'aria-label': 'Manifest' }, JSON.stringify(g.manifest, null, 2)))));
}

export function leave() { shownAs = ''; }
