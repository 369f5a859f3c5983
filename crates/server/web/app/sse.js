// @ts-check
// The event stream's bytes to frames.

/** @typedef {{id?: number, v: number, type: string, promptId?: string, originatorClientId?: string, data: any, _meta?: any}} Frame */

/** Most text of one unfinished frame; the daemon's frames are far smaller. */
const MOST = 16 * 1024 * 1024;

/**
 * A parser that is fed text and gives frames; what is not a frame of ours is left out, and comments too.
 * @returns {(text: string) => Frame[]}
 */
export function createParser() {
  let rest = '';
  return (text) => {
    rest += text;
    if (rest.length > MOST) throw new Error('a frame of the event stream is too long');
    const blocks = rest.split(/\r?\n\r?\n/);
    rest = blocks.pop() ?? '';
    return blocks.flatMap((block) => {
      const data = block.split(/\r?\n/).filter((line) => line.startsWith('data:')).map((line) => line.slice(5).trimStart()).join('\n');
      if (data === '') return [];
      try {
        const frame = JSON.parse(data);
        return frame && frame.v === 1 && typeof frame.type === 'string' ? [frame] : [];
      } catch {
        return [];
      }
    });
  };
}

/**
 * The frames of a response body. `alive` is called for every piece that arrives, comments included.
 * @param {ReadableStream<Uint8Array>} body
 * @param {() => void} alive
 * @returns {AsyncGenerator<Frame[]>}
 */
export async function* frames(body, alive) {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  const parse = createParser();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      alive();
      const found = parse(decoder.decode(value, { stream: true }));
      if (found.length > 0) yield found;
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}
