// Time that a test moves.
export class Clock {
  #now = 1_000_000;
  #timers = [];
  #ids = 0;

  now = () => this.#now;
  set = (call, ms) => {
    this.#ids += 1;
    this.#timers.push({ id: this.#ids, at: this.#now + ms, call });
    return this.#ids;
  };
  clear = (id) => { this.#timers = this.#timers.filter((timer) => timer.id !== id); };

  get armed() { return this.#timers.length; }

  /** Lets everything that waits on promises alone go on. */
  async settle() {
    for (let n = 0; n < 40; n += 1) await Promise.resolve();
  }

  /** Moves on, timer by timer. */
  async pass(ms) {
    const end = this.#now + ms;
    for (;;) {
      await this.settle();
      const next = this.#timers.filter((timer) => timer.at <= end).sort((one, other) => one.at - other.at || one.id - other.id)[0];
      if (!next) break;
      this.#timers = this.#timers.filter((timer) => timer !== next);
      this.#now = Math.max(this.#now, next.at);
      next.call();
    }
    this.#now = end;
    await this.settle();
  }

  /** Jumps ahead without running anything on the way, as a machine that slept does. */
  jump(ms) { this.#now += ms; }
}
