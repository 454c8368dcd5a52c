// The report of a generation's last validation: every way to every older gallery, with its 95 % interval.
import { badge, card, count, h, number, percent, plural, table, when } from './dom.js';

const ways = { none: 'plain distance', query: 'query adapter', item: 'item adapter' };
const tones = { passed: 'good', worse: 'bad', uncertain: 'warn', dips: 'bad', unmeasured: 'warn' };
const interval = (e) => h('span', { class: 'whole' }, number(e.value, 3), h('span', { class: 'quietly' }, ` ${number(e.low, 3)} … ${number(e.high, 3)}`));

// Ways of the new query alone, then those of both queries.
const waysOf = (pair) => [...pair.ways, ...(pair.both || [])];
const nameOf = (way) => way.older_weight === undefined ? ways[way.way] : `old query (${way.older_weight}${way.conditioned ? ', conditioned' : ''}) beside ${ways[way.way]}`;

function rowsOf(pair) {
  const old = [`its own queries`, interval(pair.old_self.cmc1), interval(pair.old_self.map), '–', '–', ''];
  return [old, ...waysOf(pair).map((way) => [
    h('span', {}, nameOf(way), ' ', way.older_weight !== undefined && pair.both_pass && way.way === pair.both_beside && badge('passes with both', 'good'), way.older_weight === undefined && pair.verdict === 'passed' && way.way === pair.chosen && badge('chosen', 'good'), pair.every_item && way.way === 'item' && way.older_weight === undefined && badge('carries every item', 'warn'), !way.in_reach && badge('out of reach', 'warn'), way.dips && badge('dips', 'bad')),
    interval(way.figures.cmc1), interval(way.figures.map), interval(way.cmc1_gain), interval(way.map_gain),
    way.mixture.map((p) => `${Math.round(100 * p.share)} %: ${number(p.map, 3)}`).join(' · ')])];
}

// What became of putting a way's distances on the scale of the new generation's own.
function calibrationOf(pair, way) {
  const c = way.calibration;
  if (!c) return null;
  if (c.none_because) return h('p', { class: 'quietly' }, `Calibration of the ${nameOf(way)}: none, ${c.none_because}`);
  const chosen = way.older_weight === undefined ? pair.verdict === 'passed' && way.way === pair.chosen : way.way === pair.both_beside;
  return h('p', { class: 'quietly' }, `Calibration of the ${nameOf(way)}: ${number(c.offset, 3)} + ${number(c.slope, 3)} × distance; on held-out probes it gains CMC@1 `,
    interval(c.cmc1_gain), ', mAP ', interval(c.map_gain), `; mAP ${c.mixture.map((p) => `${Math.round(100 * p.share)} %: ${number(p.map, 3)}`).join(' · ')} `,
    badge(c.wins ? (chosen ? 'in force' : 'wins') : 'does not win', c.wins ? 'good' : undefined), chosen && c.wins && way.dips && !c.dips && badge('dips without it', 'warn'));
}

const sure = (e) => e ? ` (${number(e.low, 2)} … ${number(e.high, 2)})` : '';

function pairOf(pair) {
  const measures = ['p_com_cmc1', 'p_com_map', 'p_up_cmc1', 'p_up_map'].filter((m) => pair[m] !== undefined)
    .map((m) => `${m.startsWith('p_com') ? 'P_com' : 'P_up'} ${m.endsWith('map') ? 'mAP' : 'CMC@1'} ${number(pair[m], 2)}${sure(pair[`${m}_interval`])}`);
  return h('section', { class: 'pair-report' },
    h('h3', {}, `On ${plural(pair.items, 'item')} of generation ${pair.item_generation} `, badge(pair.verdict, tones[pair.verdict])),
    pair.ways.length > 0 ? table([['Queries by'], ['CMC@1'], ['mAP'], ['Gain in CMC@1'], ['Gain in mAP'], ['mAP while items are embedded anew']], rowsOf(pair), `Generation ${pair.item_generation}`)
      : h('p', { class: 'quietly' }, 'No adapter leads there, and the spaces differ.'),
    waysOf(pair).map((way) => calibrationOf(pair, way)),
    pair.judged_share > 0 && h('p', { class: 'quietly' }, `Judged with ${percent(pair.judged_share)} of the items of generation ${pair.item_generation} embedded anew, as the gallery was then`),
    pair.verdict !== 'passed' && pair.passes_from_share !== undefined && h('p', { class: 'quietly' }, `Would pass from ${percent(pair.passes_from_share)} of the items of generation ${pair.item_generation} embedded anew on: back fill for this generation before it serves`),
    measures.length > 0 && h('p', { class: 'quietly' }, `${measures.join(', ')}, over ${plural(pair.common_items, 'item')} that both embedded`));
}

export function validationCard(page, generation) {
  const report = generation.validation;
  if (!report) {
    return card('w12', 'Validation', null, h('p', { class: 'quietly' }, page.probe_sets.length
      ? 'Not validated yet.' : 'The collection has no probe sets: activations are not guarded. Labelled queries make a gate (lightcone generation probes put).'));
  }
  return card('w12', 'Validation', h('span', { class: 'actions' }, badge(report.passed ? 'passed' : 'refused', report.passed ? 'good' : 'bad'), when(report.time_us / 1e6)),
    generation.validation_outdated && h('p', { class: 'callout' }, `It does not count any more: ${generation.validation_outdated}`),
    h('p', { class: 'quietly' }, `${plural(report.probes, 'probe')}, tolerance ${report.tolerance}, intervals of 95 % by bootstrap`,
      report.probes_without > 0 && `; ${plural(report.probes_without, 'probe')} with nothing to find any more`, report.missing_items > 0 && `; ${count(report.missing_items)} items that probes name are gone`),
    report.new_self && h('p', { class: 'quietly' }, 'Its own queries on its own items: CMC@1 ', interval(report.new_self.cmc1), ', mAP ', interval(report.new_self.map)),
    report.pairs.map(pairOf));
}
