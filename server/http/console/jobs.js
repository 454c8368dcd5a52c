// Work in the background: validations, retirements, fits of adapters and trainings, the newest first.
import { read } from './api.js';
import { cancelJob } from './actions.js';
import { lineChart } from './charts.js';
import { head } from './collection.js';
import { badge, card, count, empty, h, link, table, when, redraw } from './dom.js';

export const every = 2000;
let shownAs = '';

const tones = { queued: '', running: 'accent', succeeded: 'good', failed: 'bad', cancelled: 'warn' };

function progress(job) {
  if (job.state === 'failed') return job.error;
  if (job.made) return `draft: generation ${job.made}`;
  if (job.state !== 'running') return job.ended ? when(job.ended) : '–';
  const text = job.total > 0 ? `${count(job.done)} of ${count(job.total)}` : 'has begun';
  return job.step ? `${text}, ${job.step}` : text;
}

// The losses of a training by epoch.
export function losses(job) {
  return lineChart([{ label: 'loss', points: job.curve }], { format: (v) => String(Number(v.toPrecision(3))), label: `Loss of training ${job.id} by epoch`, along: (epoch) => `epoch ${Math.round(epoch)}` });
}

export async function update(root, name) {
  const { jobs, read_only: readOnly } = await read('collections', name, 'jobs');
  const now = JSON.stringify(jobs);
  if (now === shownAs && root.hasChildNodes()) return;
  shownAs = now;
  redraw(root, ...head(name, 'Jobs'), h('div', { class: 'grid' }, card('w12', 'Jobs', 'newest first; they go on after a restart',
    jobs.length ? table([['Job'], ['State'], ['Generation'], ['Begun'], ['Progress or end'], ['Attempts', 'n'], ['', 'n']],
      jobs.map((job) => [`${job.kind} ${job.id}`, badge(job.state, tones[job.state]),
        job.generation ? h('a', { href: link('collections', name, 'generations', String(job.generation)) }, `generation ${job.generation}`) : '–',
        when(job.started ?? job.created), progress(job), count(job.attempts),
        !readOnly && job.kind !== 'retire' && (job.state === 'queued' || job.state === 'running')
          ? h('button', { type: 'button', class: 'small', id: `cancel-${job.id}`, onclick: () => cancelJob(name, job) }, 'Cancel', h('span', { class: 'visually-hidden' }, ` job ${job.id}`)) : '']), 'Jobs')
      : empty('No jobs', 'Validations, trainings and retirements of generations show here.')),
    jobs.filter((job) => job.curve?.length > 1).slice(0, 2).map((job) => card('w6', `Training ${job.id}`, job.state === 'running' ? job.step : `${job.state}${job.made ? `, generation ${job.made}` : ''}`, losses(job)))));
}

export function leave() { shownAs = ''; }
