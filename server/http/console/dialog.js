// Confirmation of an operator's action: what it will do, in so many words, before it is done.
import { h, toast } from './dom.js';

const dialog = document.getElementById('dialog');

// effects: nodes or texts. run(form values) -> a text to show; when it throws, the dialog stays and says why. With
// `force`, a refusal for the collection's state offers to do it all the same, for a reason.
export function confirmAction({ title, effects, label, danger = false, force = false, reason: asksReason = force, run, done }) {
  const error = h('p', { class: 'callout bad', role: 'alert', hidden: true });
  const reason = h('input', { id: 'dialog-reason', autocomplete: 'off', maxlength: '1000' });
  const forced = h('input', { type: 'checkbox', id: 'dialog-force' });
  const forceRow = h('div', { hidden: true }, h('label', { class: 'check', for: 'dialog-force' }, forced, 'Do it all the same; a reason is required'));
  const go = h('button', { type: 'submit', class: danger ? 'danger' : 'primary' }, label);
  const form = h('form', { method: 'dialog' },
    h('h2', { id: 'dialog-title' }, title),
    h('ul', {}, effects.filter((e) => e).map((e) => h('li', {}, e))),
    error, forceRow,
    asksReason && h('div', {}, h('label', { for: 'dialog-reason' }, 'Reason, for the audit log'), reason),
    h('div', { class: 'actions' }, h('button', { type: 'button', onclick: () => dialog.close() }, 'Cancel'), go));
  form.addEventListener('submit', async (event) => {
    event.preventDefault();
    if (forced.checked && !reason.value.trim()) { reason.focus(); return; }
    go.disabled = true;
    try {
      const text = await run({ force: forced.checked, reason: reason.value.trim() });
      dialog.close();
      toast(text);
      done?.();
    } catch (problem) {
      error.hidden = false;
      error.textContent = problem.message;
      forceRow.hidden = !(force && problem.code === 'FAILED_PRECONDITION');
    } finally {
      go.disabled = false;
    }
  });
  dialog.replaceChildren(form);
  dialog.showModal();
  go.focus();
}
