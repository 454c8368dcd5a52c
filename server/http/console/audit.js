// Who serves when: activations, rollbacks, retirements and canaries.
import { read } from './api.js';
import { head } from './collection.js';
import { badge, card, count, empty, h, percent, table, when, redraw } from './dom.js';

export const every = 5000;
let shownAs = '';

export async function update(root, name) {
  const { entries } = await read('collections', name, 'audit');
  const now = JSON.stringify(entries);
  if (now === shownAs && root.hasChildNodes()) return;
  shownAs = now;
  redraw(root, ...head(name, 'Audit'), h('div', { class: 'grid' }, card('w12', 'Activations, rollbacks, retirements and canaries', 'newest first',
    entries.length ? table([['When'], ['What'], ['Generation'], ['Served before'], ['Out of reach', 'n'], ['By'], ['Reason']],
      entries.map((e) => [when(e.time), h('span', { class: 'actions' }, e.retired ? badge('retirement') : e.canary_share !== null ? badge(e.canary_share > 0 ? `canary ${percent(e.canary_share)}` : 'canary ended') : e.rollback ? badge('rollback', 'warn') : badge('activation', 'accent'), e.validated && badge('validated', 'good'), e.forced && badge('forced', 'bad')),
        `generation ${e.generation}`, e.previous_generation ? `generation ${e.previous_generation}` : '–', count(e.out_of_reach), e.operator_name || '–', e.reason || '–']), 'Audit log')
      : empty('Nothing yet', 'No generation of this collection has been activated.'))));
}

export function leave() { shownAs = ''; }
