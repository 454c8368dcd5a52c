// The console in a headless Chromium: node console_test.mjs CONSOLE_SERVER AXE_FILE PICTURES
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { after, before, test } from 'node:test';
import { dirname, join } from 'node:path';
import { Browser } from './browser.mjs';

const [binary, axeFile, pictures] = process.env.LIGHTCONE_CONSOLE_TEST.split(';');
// From npm: without its registry everything else is checked all the same.
const axe = existsSync(axeFile) ? readFileSync(axeFile, 'utf8') : '';
if (!axe) console.log(`no ${axeFile}: accessibility is not checked`);
const kPageBytesMax = 200_000;
let browser, server;

class Server {
  static async start(mode) {
    const started = new Server();
    started.process = spawn(binary, [mode], { stdio: ['pipe', 'pipe', 'inherit'] });
    for await (const line of createInterface({ input: started.process.stdout })) {
      if (!line.startsWith('ready ')) continue;
      started.url = `http://${line.slice(6)}/`;
      return started;
    }
    throw new Error('console_server ended before it was ready');
  }
  async stop() {
    const ended = new Promise((resolve) => this.process.on('exit', resolve));
    this.process.stdin.end();
    assert.equal(await ended, 0, 'the server ends well');
  }
}

before(async () => {
  mkdirSync(pictures, { recursive: true });
  [browser, server] = await Promise.all([Browser.launch(), Server.start('operate')]);
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

const pages = {
  overview: ['', `document.querySelector('.figures') && document.querySelectorAll('tbody tr').length === 5`],
  collection: ['#/collections/drawings', `document.querySelector('.heat') && document.querySelector('[role=progressbar]') && document.getElementById('canary-end')`],
  'empty-collection': ['#/collections/empty', `document.body.innerText.includes('No generation yet')`],
  faces: ['#/collections/faces.of-staff_2024', `document.body.innerText.includes('out of reach')`],
  generation: ['#/collections/drawings/generations/2', `document.body.innerText.includes('Final loss')`],
  search: ['#/collections/drawings/search', `document.getElementById('go')`],
  draft: ['#/collections/letters/generations/1', `document.getElementById('take-up-1') && document.querySelectorAll('svg.chart').length === 1`],
  training: ['#/collections/letters/jobs', `document.body.innerText.includes('draft: generation 1') && document.querySelectorAll('svg.chart').length === 1`],
  jobs: ['#/collections/catalogue/jobs', `document.body.innerText.includes('succeeded')`],
  validation: ['#/collections/catalogue/generations/1', `document.body.innerText.includes('Its own queries on its own items')`],
  audit: ['#/collections/drawings/audit', `document.body.innerText.includes('first model')`],
  'not-found': ['#/collections/nowhere', `document.body.innerText.includes('Not found')`],
};

async function accessibility(page) {
  if (!axe) return [];
  await page.eval(axe);
  const found = await page.eval(`axe.run(document, { resultTypes: ['violations'] }).then((r) => r.violations.map((v) => ({ id: v.id, impact: v.impact, nodes: v.nodes.map((n) => n.html.slice(0, 160) + ' ' + n.failureSummary).slice(0, 4) })))`);
  return found.filter((v) => ['serious', 'critical'].includes(v.impact));
}

for (const width of [360, 1400]) {
  for (const dark of [false, true]) {
    test(`every page at ${width} px, ${dark ? 'dark' : 'light'}`, async (t) => {
      const page = await browser.newPage();
      await page.look({ width, dark });
      for (const [name, [hash, ready]] of Object.entries(pages)) {
        await t.test(name, async () => {
          page.problems.length = 0;
          await page.open(server.url + hash);
          await page.until(ready, `${name} is shown`);
          if (name === 'search') {
            await page.type('#item', '#7');
            await page.click('#go');
            await page.until(`document.querySelectorAll('.hit img').length >= 10 && [...document.querySelectorAll('.hit img')].every((i) => i.complete && i.naturalWidth > 0)`, 'hits with pictures');
          }
          const bytes = page.bytes;
          writeFileSync(join(pictures, `${name}-${width}-${dark ? 'dark' : 'light'}.png`), await page.screenshot());
          const expected = name === 'not-found' ? page.problems.filter((p) => !p.includes('404')) : page.problems;
          assert.deepEqual(expected, [], 'the browser complains');
          assert.deepEqual(await accessibility(page), [], 'accessibility');
          assert.ok(await page.eval('document.documentElement.scrollWidth <= innerWidth'), 'the page is not wider than the window');
          assert.ok(bytes <= kPageBytesMax, `${bytes} bytes`);
          if (dark) assert.equal(await page.eval(`getComputedStyle(document.body).backgroundColor`), 'rgb(15, 18, 24)');
        });
      }
      await page.close();
    });
  }
}

test('a search by vector and by image, and a vector that is none', async () => {
  const page = await browser.newPage();
  await page.look({ width: 1400 });
  await page.open(`${server.url}#/collections/drawings/search`);
  await page.until(`document.getElementById('go')`);
  await page.type('#vector', 'one, two');
  await page.click('#go');
  await page.until(`document.querySelector('#results [role=alert]')?.textContent.includes('Number 1')`);
  await page.eval(`document.getElementById('vector').value = ''`);
  await page.type('#vector', '1, 2, 3');
  await page.click('#go');
  await page.until(`document.querySelector('#results [role=alert]')?.textContent.includes('16')`, 'the server names the dimension');
  page.problems.length = 0;  // the refusal is an answer 400, which the browser logs
  await page.eval(`document.getElementById('vector').value = ''`);
  await page.type('#vector', `[${Array.from({ length: 16 }, (_, i) => i / 16).join(', ')}]`);
  await page.click('#go');
  await page.until(`document.querySelectorAll('.hit').length === 12`);
  assert.ok(await page.eval(`document.getElementById('results').innerText.includes('compatible training')`), 'the legs are shown');
  // A dropped image goes through the encoder of the serving generation.
  await page.eval(`new Promise((resolve) => { const canvas = document.createElement('canvas'); canvas.width = canvas.height = 24;
    const c = canvas.getContext('2d'); c.fillStyle = '#fff'; c.beginPath(); c.arc(12, 12, 6, 0, 7); c.fill();
    canvas.toBlob((blob) => { const files = new DataTransfer(); files.items.add(new File([blob], 'disc.png', { type: 'image/png' }));
      document.getElementById('drop').dispatchEvent(new DragEvent('drop', { dataTransfer: files, bubbles: true, cancelable: true })); resolve(); }); })`);
  await page.eval(`document.getElementById('results').replaceChildren()`);
  await page.until(`document.querySelector('#drop img')?.complete`, 'the picture');
  await page.click('#go');
  await page.until(`document.querySelectorAll('.hit img').length === 12`, 'hits of an image');
  writeFileSync(join(pictures, 'search-image.png'), await page.screenshot());
  assert.deepEqual(page.problems, []);
  // What is given last is what is asked, and what was given before is not shown any more.
  await page.type('#vector', '1, 2, 3');
  assert.equal(await page.eval(`document.querySelectorAll('#drop img').length`), 0);
  await page.click('#go');
  await page.until(`document.querySelector('#results [role=alert]')?.textContent.includes('16')`, 'the vector is asked, not the image');
  await page.type('#item', '#7');
  assert.equal(await page.eval(`document.getElementById('vector').value`), '');
  await page.click('#go');
  await page.until(`document.querySelectorAll('.hit img').length === 12`, 'hits of an item');
  await page.close();
});

test('an activation and a rollback by clicking, with what they do said before', async () => {
  const page = await browser.newPage();
  await page.look({ width: 1400 });
  await page.open(`${server.url}#/collections/drawings`);
  await page.click('#activate-3');
  await page.until(`document.getElementById('dialog').open`);
  const said = await page.eval(`document.getElementById('dialog').innerText`);
  assert.match(said, /Activate generation 3 of drawings/);
  assert.match(said, /within reach/);
  writeFileSync(join(pictures, 'activate.png'), await page.screenshot());
  assert.deepEqual(await accessibility(page), []);
  await page.press('Escape');
  await page.until(`!document.getElementById('dialog').open`, 'Escape closes it');
  await page.click('#activate-3');
  await page.until(`document.getElementById('dialog').open`);
  await page.type('#dialog-reason', 'clicked by a test');
  await page.click('#dialog button[type=submit]');
  await page.until(`document.querySelector('.node.active')?.innerText.includes('Generation 3')`, 'generation 3 serves');
  await page.click('#rollback');
  await page.until(`document.getElementById('dialog').open && document.getElementById('dialog').innerText.includes('Generation 2')`, 'where a rollback leads is said');
  await page.press('Enter');  // the button has the focus
  await page.until(`document.querySelector('.node.active')?.innerText.includes('Generation 2')`, 'generation 2 serves again');
  await page.open(`${server.url}#/collections/drawings/audit`);
  await page.until(`document.body.innerText.includes('clicked by a test') && document.body.innerText.includes('rollback')`);
  assert.deepEqual(page.problems, []);
  await page.close();
});

test('a validation by clicking opens the gate, and a generation is retired', async () => {
  const page = await browser.newPage();
  await page.look({ width: 1400 });
  await page.open(`${server.url}#/collections/catalogue/generations/2`);
  await page.click('#activate-2');
  await page.click('#dialog button[type=submit]');
  await page.until(`document.querySelector('#dialog [role=alert]:not([hidden])')?.textContent.includes('validat')`, 'the gate says what is missing');
  await page.press('Escape');
  page.problems.length = 0;  // the refusal is an answer 409, which the browser logs
  await page.click('#validate-2');
  await page.until(`document.getElementById('dialog').innerText.includes('300 probes in 1 set')`);
  await page.click('#dialog button[type=submit]');
  await page.until(`document.querySelector('.pair-report .badge')?.textContent === 'passed'`, 'the report with its verdict');
  writeFileSync(join(pictures, 'validated.png'), await page.screenshot());
  assert.deepEqual(await accessibility(page), []);
  await page.click('#activate-2');
  await page.click('#dialog button[type=submit]');
  await page.until(`!document.getElementById('activate-2') && document.body.innerText.includes('serving')`, 'it serves');
  await page.open(`${server.url}#/collections/catalogue/generations/1`);
  await page.click('#retire-1');
  await page.click('#dialog button[type=submit]');
  await page.until(`document.querySelector('#dialog [role=alert]:not([hidden])')`, 'its items are still served as it embedded them');
  writeFileSync(join(pictures, 'retire.png'), await page.screenshot());
  await page.close();
});

test('a backfill is paused and goes on', async () => {
  const page = await browser.newPage();
  await page.look({ width: 1400 });
  await page.open(`${server.url}#/collections/drawings`);
  await page.click('#pause');
  await page.click('#dialog button[type=submit]');
  await page.until(`document.getElementById('start')?.innerText === 'Resume'`);
  await page.click('#start');
  await page.click('#dialog button[type=submit]');
  await page.until(`document.getElementById('pause')`);
  assert.deepEqual(page.problems, []);
  await page.close();
});

test('what would lose items is refused with the figure, and done for a reason', async () => {
  const page = await browser.newPage();
  await page.look({ width: 1400 });
  await page.open(`${server.url}#/collections/faces.of-staff_2024`);
  await page.click('#activate-2');
  await page.until(`document.getElementById('dialog').innerText.includes('50 items (100 %) would be out of its reach')`);
  await page.click('#dialog button[type=submit]');
  await page.until(`document.querySelector('#dialog [role=alert]:not([hidden])')?.textContent.includes('cannot reach 50 items')`);
  writeFileSync(join(pictures, 'refused.png'), await page.screenshot());
  await page.click('#dialog-force');
  await page.type('#dialog-reason', 'a drill');
  await page.click('#dialog button[type=submit]');
  await page.until(`document.querySelector('.node.active')?.innerText.includes('Generation 2')`);
  await page.open(`${server.url}#/collections/faces.of-staff_2024/audit`);
  await page.until(`document.body.innerText.includes('a drill') && document.body.innerText.includes('forced')`);
  await page.close();
});

test('the keyboard alone reaches content, links and theme', async () => {
  const page = await browser.newPage();
  await page.look({ width: 1400 });
  await page.open(server.url);
  await page.until(pages.overview[1]);
  const seen = [];
  await page.eval('document.activeElement.blur()');
  for (let i = 0; i < 14; ++i) {
    await page.press('Tab');
    seen.push(await page.eval(`(document.activeElement.getAttribute('aria-label') ?? document.activeElement.innerText).trim()`));
  }
  for (const wanted of ['Lightcone', 'Overview', 'Theme: auto. Change it', 'drawings']) assert.ok(seen.includes(wanted), `${wanted} among ${seen}`);
  await page.click('#theme');
  await page.click('#theme');
  assert.equal(await page.eval(`document.documentElement.dataset.theme`), 'dark');
  await page.open(server.url);
  await page.until(`document.documentElement.dataset.theme === 'dark'`, 'the theme is kept');
  await page.eval(`localStorage.clear()`);
  await page.close();
});

test('how soon the first paint comes is printed', async () => {
  const page = await browser.newPage();
  await page.look({ width: 1400 });
  const paints = [];
  for (let i = 0; i < 5; ++i) {
    await page.open(server.url);
    await page.until(pages.overview[1]);
    paints.push(await page.eval(`performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 1e9`));
  }
  paints.sort((a, b) => a - b);
  console.log(`first paint: ${paints.map((p) => Math.round(p)).join(', ')} ms`);
  await page.close();
});

test('pages of other sites can neither read nor act, and a read-only console does not act', async () => {
  const ask = (path, options) => fetch(server.url + path, options).then((r) => r.status);
  const own = { 'X-Lightcone-Console': '1' };
  assert.equal(await ask('api/v1/overview', { headers: own }), 200);
  assert.equal(await ask('api/v1/overview'), 403);
  assert.equal(await ask('api/v1/overview', { headers: { ...own, Origin: 'http://evil.example' } }), 403);
  assert.equal(await ask('api/v1/overview', { headers: { ...own, 'Sec-Fetch-Site': 'cross-site' } }), 403);
  const post = { method: 'POST', body: '{"generation":1,"expect_active":2}' };
  assert.equal(await ask('api/v1/collections/drawings/activate', post), 403);
  // A page of another origin in a real browser: the preflight is not answered, so nothing is sent.
  const page = await browser.newPage();
  await page.open(server.url.replace('127.0.0.1', 'localhost'));
  await page.until(`document.querySelector('.figures')`, 'localhost is a name of this server');
  const sent = await page.eval(`fetch(${JSON.stringify(`${server.url}api/v1/collections/drawings/activate`)}, { method: 'POST', headers: { 'X-Lightcone-Console': '1' }, body: '{}' }).then(() => 'sent', () => 'refused')`);
  assert.equal(sent, 'refused');
  await page.close();

  const reader = await Server.start('read');
  try {
    const refused = await fetch(`${reader.url}api/v1/collections/drawings/activate`, { ...post, headers: own });
    assert.equal(refused.status, 403);
    assert.match((await refused.json()).error.message, /read-only/);
    const page = await browser.newPage();
    await page.look({ width: 1400 });
    await page.open(`${reader.url}#/collections/drawings`);
    await page.until(`document.querySelector('.heat')`);
    assert.equal(await page.eval(`document.querySelectorAll('#rollback, [id^=activate], #pause, #start').length`), 0);
    await page.close();
  } finally {
    await reader.stop();
  }
});

// Last: it adds a collection to the overview.
test('the commands that the console shows are taken as they stand', async () => {
  const { grpc } = await (await fetch(`${server.url}api/v1/overview`, { headers: { 'X-Lightcone-Console': '1' } })).json();
  const run = (command) => {
    const [, ...words] = command.trim().split(/\s+/);
    const done = spawnSync(join(dirname(binary), 'lightcone'), ['--server', grpc, ...words], { encoding: 'utf8' });
    assert.equal(done.status, 0, `${command}\n${done.stderr}`);
    return done.stdout;
  };
  const found = async (file, pattern) => pattern.exec(await (await fetch(`${server.url}console/${file}`)).text())[1];
  const first = await found('overview.js', /'(lightcone collection create .*?)'/);
  for (const command of first.split('\\n')) run(command);
  const probes = await found('validation.js', /\((lightcone [a-z ]+)\)/);
  assert.match(run(`${probes} --help`), new RegExp(probes.split(' ').slice(1).join(' ')), 'the help of that very command');
  const page = await browser.newPage();
  await page.look({ width: 1400 });
  await page.open(`${server.url}#/collections/empty`);
  await page.until(pages['empty-collection'][1]);
  run(await page.eval(`[...document.querySelectorAll('.empty pre')].find((e) => e.innerText.includes('register')).innerText`));
  await page.until(`document.querySelector('.node.active')?.innerText.includes('Generation 1')`, 'it serves by the generation that was registered');
  await page.close();
});
