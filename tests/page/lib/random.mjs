/** Numbers in [0, 1) that a seed decides. */
export function random(seed) {
  let state = seed >>> 0;
  return () => {
    // A Weyl sequence, mixed.
    state = (state + 0x9e3779b9) >>> 0;
    let mixed = state;
    mixed = Math.imul(mixed ^ (mixed >>> 16), 0x21f0aaad);
    mixed = Math.imul(mixed ^ (mixed >>> 15), 0x735a2d97);
    return ((mixed ^ (mixed >>> 15)) >>> 0) / 2 ** 32;
  };
}
