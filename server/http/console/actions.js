// What an operator can do to a collection, each with a confirmation that says the effect. Jobs and pages share them.
import { act } from './api.js';
import { confirmAction } from './dialog.js';
import { count, h, percent, plural } from './dom.js';

const refreshed = () => window.dispatchEvent(new Event('lightcone:refresh'));

// How many items queries of a generation would not be compared with, by what the page knows.
export function outOfReach(page, generation) {
  const reach = new Set(generation.reach);
  return page.items_by_generation.filter((one) => !reach.has(one.generation)).reduce((sum, one) => sum + one.items, 0);
}

function effectsOn(page, generation) {
  const missed = outOfReach(page, generation);
  const own = page.items_by_generation.find((one) => one.generation === generation.generation)?.items ?? 0;
  return [
    h('span', {}, 'From the next search on, queries are taken as embedded by ', h('strong', {}, `generation ${generation.generation}`), ` (${generation.method || 'no method named'}, ${generation.dimension} dimensions).`),
    `${plural(own, 'item')} of ${count(page.items)} were embedded by it; the others are served as older generations embedded them. Nothing is moved or embedded anew.`,
    missed > 0
      ? h('strong', {}, `${plural(missed, 'item')} (${percent(missed / page.items)}) would be out of its reach: no search finds them.`)
      : 'Every item stays within reach.',
  ];
}

export function activate(page, generation) {
  const from = page.active_generation;
  confirmAction({
    title: `Activate generation ${generation.generation} of ${page.name}?`,
    label: 'Activate',
    force: true,
    effects: [...effectsOn(page, generation),
      from ? `Generation ${from} stays as it is: a rollback makes it serve again at once.` : 'It is the first generation to serve.'],
    run: async (form) => {
      await act(page.name, 'activate', { generation: generation.generation, expect_active: from, force: form.force, reason: form.reason });
      return `Generation ${generation.generation} serves ${page.name}.`;
    },
    done: refreshed,
  });
}

export function rollback(page, back) {
  const from = page.active_generation;
  confirmAction({
    title: `Roll ${page.name} back?`,
    label: 'Roll back',
    danger: true,
    force: true,
    effects: [
      h('span', {}, h('strong', {}, back ? `Generation ${back.generation}` : 'The generation that served before'), ` serves again instead of generation ${from}.`),
      `What generation ${from} embedded meanwhile stays, and is searched where it is within reach.`,
      back && (outOfReach(page, back) > 0
        ? h('strong', {}, `${plural(outOfReach(page, back), 'item')} would be out of its reach: no search finds them.`)
        : 'Every item stays within reach.'),
      page.backfill.state !== 'none' && page.backfill.state !== 'done' && `The backfill by generation ${page.backfill.generation} stops until it is active again.`,
    ],
    run: async (form) => {
      const done = await act(page.name, 'rollback', { expect_active: from, force: form.force, reason: form.reason });
      return `Generation ${done.generation.generation} serves ${page.name} again.`;
    },
    done: refreshed,
  });
}

export function pauseBackfill(page) {
  confirmAction({
    title: `Pause the backfill of ${page.name}?`,
    label: 'Pause',
    effects: ['Workers get no more items; what they hold now may still come back.', 'Searches go on over a gallery of mixed generations, for as long as you like.'],
    run: async () => { await act(page.name, 'backfill-pause', {}); return `The backfill of ${page.name} is paused.`; },
    done: refreshed,
  });
}

export function startBackfill(page) {
  const again = page.backfill.state === 'paused' || page.backfill.state === 'failed';
  confirmAction({
    title: again ? `Resume the backfill of ${page.name}?` : `Start a backfill of ${page.name}?`,
    label: again ? 'Resume' : 'Start',
    effects: again
      ? ['Workers lease items again, the worst first, where it stopped.',
        page.backfill.embed_rate > 0 && `The server itself goes on embedding stored inputs, ${count(page.backfill.embed_rate)} a second at most.`]
      : [`Items of older generations are put in order, the worst first, for generation ${page.active_generation} to embed them anew. A thread of low priority searches for each of them.`,
        'Workers then lease items and write the new embeddings. It can be paused and may end anywhere.'],
    run: async () => { await act(page.name, 'backfill-start', {}); return again ? 'The backfill goes on.' : 'The backfill has begun.'; },
    done: refreshed,
  });
}

export function validate(page, generation) {
  const probes = page.probe_sets.reduce((sum, set) => sum + set.probes, 0);
  confirmAction({
    title: `Validate generation ${generation.generation} of ${page.name}?`,
    label: 'Validate',
    effects: [`${plural(probes, 'probe')} in ${plural(page.probe_sets.length, 'set')} are ranked in every gallery that generation ${generation.generation} would meet, plainly and through each adapter.`,
      'It runs as a job beside serving. Its report decides whether the generation may be activated without force.'],
    run: async () => { const { job } = await act(page.name, 'validate', { generation: generation.generation }); return `Validation begun as job ${job}.`; },
    done: refreshed,
  });
}

export function retire(page, generation) {
  const own = page.items_by_generation.find((one) => one.generation === generation.generation)?.items ?? 0;
  confirmAction({
    title: `Retire generation ${generation.generation} of ${page.name}?`,
    label: 'Retire',
    danger: true,
    reason: true,
    effects: ['It leaves service for good: no rollback leads to it any more. Its adapters go with its embeddings.',
      own > 0 && `${plural(own, 'item')} are served as it embedded them; it is refused while the serving generation could not reach them otherwise.`,
      'A job then gives back the space of its embeddings, segments and encoder.'],
    run: async (form) => {
      const done = await act(page.name, 'retire', { generation: generation.generation, reason: form.reason });
      return done.job ? `Generation ${generation.generation} is retired; job ${done.job} gives its space back.` : `Generation ${generation.generation} is retired.`;
    },
    done: refreshed,
  });
}

export function takeUp(page, generation) {
  confirmAction({
    title: `Take up draft ${generation.generation} of ${page.name}?`,
    label: 'Take up',
    effects: ['It is a generation like others then: it can be validated, be a canary, and be activated.', 'Nothing serves by it yet.'],
    run: async () => { await act(page.name, 'take-up', { generation: generation.generation }); return `Generation ${generation.generation} is registered.`; },
    done: refreshed,
  });
}

export function endCanary(page) {
  confirmAction({
    title: `End the canary of ${page.name}?`,
    label: 'End it',
    danger: true,
    effects: [`Generation ${page.active_generation} serves every search again, from the next one on.`, `What generation ${page.canary.generation} showed so far is forgotten; it stays registered.`],
    run: async () => { await act(page.name, 'canary-end', {}); return `Generation ${page.active_generation} serves everything.`; },
    done: refreshed,
  });
}

export function cancelJob(collection, job) {
  confirmAction({
    title: `Cancel ${job.kind} ${job.id}?`,
    label: 'Cancel the job',
    danger: true,
    effects: ['It ends a little later and leaves nothing behind; it can be begun anew.'],
    run: async () => { await act(collection, 'job-cancel', { job: job.id }); return `Job ${job.id} is asked to end.`; },
    done: refreshed,
  });
}
