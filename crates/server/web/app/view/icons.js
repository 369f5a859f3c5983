// @ts-check
// Icons, drawn with lines.
import { html } from '../html.js';

/** @type {Record<string, string>} */
const PATHS = {
  inbox: 'M3 12h5l2 3h4l2-3h5M5 5h14l2 7v6a1 1 0 0 1-1 1H4a1 1 0 0 1-1-1v-6z',
  sessions: 'M4 6h16M4 12h16M4 18h10',
  plus: 'M12 5v14M5 12h14',
  gear: 'M12 9a3 3 0 1 0 0 6 3 3 0 0 0 0-6M4 12h2M18 12h2M12 4v2M12 18v2M6.3 6.3l1.5 1.5M16.2 16.2l1.5 1.5M17.7 6.3l-1.5 1.5M7.8 16.2l-1.5 1.5',
  back: 'M15 5l-7 7 7 7',
  stop: 'M7 7h10v10H7z',
  send: 'M12 19V5M6 11l6-6 6 6',
  check: 'M5 13l4 4L19 7',
  cross: 'M6 6l12 12M18 6L6 18',
  dash: 'M6 12h12',
  ask: 'M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18M9.5 9.5a2.5 2.5 0 1 1 3.6 2.2c-.7.4-1.1.9-1.1 1.6v.4M12 16.6v.1',
  shield: 'M12 3l7 3v5c0 4.5-2.8 8-7 10-4.2-2-7-5.5-7-10V6z',
  edit: 'M4 20l1-4L16 5l3 3L8 19z',
  read: 'M6 3h8l4 4v14H6zM14 3v4h4M9 12h6M9 16h6',
  search: 'M10.5 5a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11M15 15l5 5',
  shell: 'M5 7l5 5-5 5M12 18h7',
  tool: 'M14 6a4 4 0 0 0 4.6 5.2L20 13l-7 7-2-2 5-5-2.6-2.6A4 4 0 0 1 14 6M4 8h6M4 12h4M4 16h3',
  think: 'M12 4a6 6 0 0 0-3.5 10.9V17h7v-2.1A6 6 0 0 0 12 4M9.5 20h5',
  chevron: 'M9 6l6 6-6 6',
  people: 'M9 11a3 3 0 1 0 0-6 3 3 0 0 0 0 6M3 19c.5-3 2.8-5 6-5s5.5 2 6 5M16 5.5a3 3 0 0 1 0 5.5M18 14.5c1.7.8 2.7 2.4 3 4.5',
  open: 'M9 6h9v9M18 6L7 17',
  trash: 'M5 7h14M10 7V4h4v3M7 7l1 13h8l1-13M10.5 11v5M13.5 11v5',
  folder: 'M3 6h6l2 2h10v11H3z',
};

/** @param {{name: string}} props */
export const Icon = ({ name }) => html`<svg class="icon" viewBox="0 0 24 24" aria-hidden="true" focusable="false"><path d=${PATHS[name] ?? PATHS.tool} /></svg>`;
