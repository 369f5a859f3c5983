/** A token of Markdown; which fields there are depends on `type`. */
export interface Token {
  type: string; raw: string; text?: string; depth?: number; lang?: string; ordered?: boolean; start?: number | '';
  href?: string; title?: string | null; tokens?: Token[]; items?: Token[]; task?: boolean; checked?: boolean; loose?: boolean;
  header?: Cell[]; rows?: Cell[][];
}
export interface Cell { text: string; tokens: Token[]; align: 'left' | 'right' | 'center' | null }
export function lexer(text: string, options?: { gfm?: boolean; breaks?: boolean }): Token[];
