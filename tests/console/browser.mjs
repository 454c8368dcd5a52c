// A headless Chromium over the DevTools protocol on two pipes: no driver package is needed.
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export class Browser {
  static async launch() {
    const browser = new Browser();
    browser.profile = mkdtempSync(join(tmpdir(), 'lightcone-chromium-'));
    browser.process = spawn('chromium', ['--headless=new', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--hide-scrollbars', '--no-first-run',
      '--disable-background-networking', '--disable-extensions', '--force-color-profile=srgb', `--user-data-dir=${browser.profile}`, '--remote-debugging-pipe', 'about:blank'],
    { stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'pipe'] });
    let rest = '';
    browser.process.stdio[4].on('data', (data) => {
      const messages = (rest + data).split('\0');
      rest = messages.pop();
      for (const message of messages) browser.#take(JSON.parse(message));
    });
    browser.gone = new Promise((resolve) => browser.process.on('exit', resolve));
    browser.gone.then(() => { for (const { reject } of browser.#waiting.values()) reject(new Error('chromium ended')); });
    return browser;
  }

  #next = 1;
  #waiting = new Map();
  #pages = new Map();  // by session

  send(method, params = {}, sessionId = undefined) {
    const id = this.#next++;
    this.process.stdio[3].write(`${JSON.stringify({ id, method, params, sessionId })}\0`);
    return new Promise((resolve, reject) => this.#waiting.set(id, { resolve, reject, method }));
  }

  #take(message) {
    if (message.id) {
      const { resolve, reject, method } = this.#waiting.get(message.id);
      this.#waiting.delete(message.id);
      if (message.error) reject(new Error(`${method}: ${message.error.message}`));
      else resolve(message.result);
    } else {
      this.#pages.get(message.sessionId)?.take(message);
    }
  }

  async newPage() {
    const { targetId } = await this.send('Target.createTarget', { url: 'about:blank' });
    const { sessionId } = await this.send('Target.attachToTarget', { targetId, flatten: true });
    const page = new Page(this, sessionId, targetId);
    this.#pages.set(sessionId, page);
    for (const domain of ['Page', 'Runtime', 'Log', 'Network']) await page.send(`${domain}.enable`);
    return page;
  }

  async close() {
    await this.send('Browser.close').catch(() => {});
    await this.gone;
    rmSync(this.profile, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 });
  }
}

class Page {
  constructor(browser, session, target) { this.browser = browser; this.session = session; this.target = target; }
  problems = [];    // errors of the console, exceptions, requests that failed or left this server
  bytes = 0;        // that came over the network
  origin = '';

  send(method, params) { return this.browser.send(method, params, this.session); }

  take({ method, params }) {
    if (method === 'Runtime.exceptionThrown') this.problems.push(params.exceptionDetails.exception?.description ?? params.exceptionDetails.text);
    if (method === 'Runtime.consoleAPICalled' && ['error', 'warning'].includes(params.type)) this.problems.push(params.args.map((a) => a.value ?? a.description).join(' '));
    if (method === 'Log.entryAdded' && ['error', 'warning'].includes(params.entry.level)) this.problems.push(`${params.entry.text} ${params.entry.url ?? ''}`);
    if (method === 'Network.loadingFinished') this.bytes += params.encodedDataLength;
    if (method === 'Network.requestWillBeSent' && this.origin && !/^(blob|data):/.test(params.request.url) && !params.request.url.startsWith(this.origin)) {
      this.problems.push(`asked ${params.request.url}`);
    }
  }

  async look({ width, height = 900, dark = false }) {
    await this.send('Emulation.setDeviceMetricsOverride', { width, height, deviceScaleFactor: 1, mobile: false });
    await this.send('Emulation.setEmulatedMedia', { features: [{ name: 'prefers-color-scheme', value: dark ? 'dark' : 'light' }] });
  }

  // A whole new document, whatever the page before.
  async open(url) {
    this.origin = new URL(url).origin;
    await this.send('Page.navigate', { url: 'about:blank' });
    this.bytes = 0;
    await this.send('Page.navigate', { url });
  }

  async eval(expression) {
    const { result, exceptionDetails } = await this.send('Runtime.evaluate', { expression, awaitPromise: true, returnByValue: true });
    if (exceptionDetails) throw new Error(`${expression.slice(0, 200)}: ${exceptionDetails.exception?.description ?? exceptionDetails.text}`);
    return result.value;
  }

  // Until the expression is true in the page; looks again at every frame.
  async until(expression, what = expression) {
    const waits = `new Promise((resolve) => { const end = performance.now() + 20000; const look = () => {
      let value = false; try { value = !!(${expression}); } catch {}
      if (value || performance.now() > end) resolve(value); else setTimeout(look, 20); }; look(); })`;
    if (!await this.eval(waits)) throw new Error(`not within 20 s: ${what}\n${await this.eval('document.body?.innerText.slice(0, 2000)')}`);
  }

  // A real click in the middle of what the selector names, as a person's.
  async click(selector) {
    await this.until(`document.querySelector(${JSON.stringify(selector)})`, selector);
    const box = await this.eval(`(() => { const e = document.querySelector(${JSON.stringify(selector)}); e.scrollIntoView({ block: 'center' }); const r = e.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; })()`);
    for (const type of ['mousePressed', 'mouseReleased']) await this.send('Input.dispatchMouseEvent', { type, x: box[0], y: box[1], button: 'left', clickCount: 1 });
  }

  async press(key, code = key) {
    for (const type of ['keyDown', 'keyUp']) await this.send('Input.dispatchKeyEvent', { type, key, code, windowsVirtualKeyCode: { Tab: 9, Enter: 13, Escape: 27 }[key] ?? 0, ...(key === 'Enter' && type === 'keyDown' && { text: '\r' }) });
  }

  async type(selector, text) {
    await this.eval(`document.querySelector(${JSON.stringify(selector)}).focus()`);
    await this.send('Input.insertText', { text });
  }

  async screenshot() {
    const { contentSize } = await this.send('Page.getLayoutMetrics').then((m) => ({ contentSize: m.cssContentSize }));
    const { data } = await this.send('Page.captureScreenshot', { format: 'png', captureBeyondViewport: true, clip: { x: 0, y: 0, width: contentSize.width, height: Math.min(contentSize.height, 6000), scale: 1 } });
    return Buffer.from(data, 'base64');
  }

  close() { return this.browser.send('Target.closeTarget', { targetId: this.target }); }
}
